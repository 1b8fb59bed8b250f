"""Frazil's fast paths from Kafka to Arrow, and from payloads of the value formats to Arrow."""

from typing import final

import pyarrow as pa

@final
class AvroDecoder:
    """Decodes payloads of one writer schema, given as the JSON text of its shape.

    Raises ValueError where the shape is not covered.
    """

    def __new__(cls, shape: str) -> AvroDecoder: ...
    def decode(
        self, payloads: pa.LargeBinaryArray | pa.DictionaryArray, skip: int
    ) -> tuple[pa.RecordBatch, tuple[bytes, list[str], list[str], list[str]], int, int]:
        """The rows; the indexes of the rejects as numbers of 64 bits, their reasons, details and paths; how many
        timestamps lost nanoseconds; how many fields were undeclared.
        """

    @staticmethod
    def decode_together(
        decoders: list[AvroDecoder], payloads: pa.LargeBinaryArray | pa.DictionaryArray, together: object, skip: int
    ) -> tuple[pa.RecordBatch, tuple[bytes, list[str], list[str], list[str]], int, int]:
        """The same for payloads of several decoders, as rows in the order of the payloads.

        `together` has the attributes of `frazil.formats.native.NativeColumns`. Raises ValueError if they do not agree
        with the payloads and the decoders.
        """

@final
class JsonDecoder:
    """Decodes JSON payloads of one shape, given as JSON text."""

    def __new__(cls, shape: str) -> JsonDecoder: ...
    def decode(
        self, payloads: pa.LargeBinaryArray | pa.DictionaryArray, skip: int
    ) -> tuple[pa.RecordBatch, tuple[bytes, list[str], list[str], list[str]], int, int]:
        """The same as AvroDecoder.decode."""

    @staticmethod
    def decode_together(
        decoders: list[JsonDecoder], payloads: pa.LargeBinaryArray | pa.DictionaryArray, together: object, skip: int
    ) -> tuple[pa.RecordBatch, tuple[bytes, list[str], list[str], list[str]], int, int]:
        """The same as AvroDecoder.decode_together."""

@final
class ProtobufDecoder:
    """Decodes payloads of one writer schema, given as the JSON text of its shape.

    Raises ValueError where the shape is not covered.
    """

    def __new__(cls, shape: str) -> ProtobufDecoder: ...
    def decode(
        self, payloads: pa.LargeBinaryArray | pa.DictionaryArray, skip: int
    ) -> tuple[pa.RecordBatch, tuple[bytes, list[str], list[str], list[str]], int, int]:
        """The same as AvroDecoder.decode."""

    @staticmethod
    def decode_together(
        decoders: list[ProtobufDecoder], payloads: pa.LargeBinaryArray | pa.DictionaryArray, together: object, skip: int
    ) -> tuple[pa.RecordBatch, tuple[bytes, list[str], list[str], list[str]], int, int]:
        """The same as AvroDecoder.decode_together."""

def avro_payloads(rows: pa.RecordBatch, prefix: bytes) -> pa.BinaryArray:
    """Return a payload for each row: `prefix`, then each column as the union of null and its type.

    Raises ValueError for a type that Avro does not have.
    """

def partition_hashes(keys: pa.BinaryArray) -> pa.Int32Array:
    """Return the hash of each key by which Kafka's Java clients choose a partition. Null is null."""

def json_suspects(payloads: pa.LargeBinaryArray, deepest: int) -> list[int]:
    """Return the indexes of payloads that may not be one JSON text, or may be nested more than `deepest` levels."""

def schema_id_groups(values: pa.LargeBinaryArray) -> tuple[list[int], list[int], pa.Int64Array | None]:
    """Return the schema ids in Confluent's wire format, in the order of first use.

    -1 is in place of that of nulls, and -2 of values without a header. Unless all values have the first id, the others
    are, for each id, how many values have it or one before, and the indexes of all values by id.
    """

def identities(rows: pa.RecordBatch, names: tuple[str, str]) -> pa.RecordBatch:
    """Return the identity of each row as two columns of longs; both are null if any value of the row is null.

    The encoding is that of `jobs/frazil/modes/identity.py`. Raises ValueError for a type that has no identity.
    """

def keyed_hashes(values: pa.LargeBinaryArray, key: bytes) -> pa.LargeStringArray:
    """Return the first half of each value's HMAC-SHA-256 as 32 hexadecimal digits. Null is null."""

def librdkafka_version(module: str) -> int:
    """Return librdkafka's version if it can be used through `module`, a loaded file that is linked with it.

    Raises ValueError if it cannot be used.
    """

@final
class BatchConsumer:
    """Fetches partitions. Releases the interpreter's lock during every call.

    `settings` are librdkafka's. Raises ValueError if librdkafka cannot be used or refuses a setting; methods raise
    RuntimeError for what librdkafka refuses, and after `close`.
    """

    def __new__(cls, module: str, settings: list[tuple[str, str]], takes_tokens: bool) -> BatchConsumer: ...
    def assign(self, starts: list[tuple[str, int, int]]) -> None:
        """Fetch these topics and partitions from these offsets on, and no others."""

    def add(self, starts: list[tuple[str, int, int]]) -> None:
        """Fetch these partitions as well."""

    def remove(self, places: list[tuple[str, int]]) -> None:
        """Fetch these partitions no longer, and discard what was fetched of them."""

    def unassign(self) -> None: ...
    def position(self, topic: str, partition: int) -> int:
        """Return the offset after the last record or control record that was passed; negative before the first."""

    def poll(
        self, topic: str, partition: int, *, most: int, most_bytes: int, one_by_one: bool, end: int, wait_ms: int
    ) -> tuple[list[pa.Array], int | None, tuple[int, str] | None]:
        """Take records of a partition until there are `most`, or about `most_bytes`, or the one before `end` or the
        partition's end is met, or `wait_ms` have passed. Records are taken one by one if `most_bytes` must not be
        passed by more than one.

        Returns the columns offset, timestamp_ms, timestamp_type, leader_epoch, key, value, headers and headers_problem,
        which do not share memory; the partition's end, if it was met; and the code and text of an error, if one came.
        """

    def events(self) -> tuple[list[tuple[int, str]], bool]:
        """Return codes and texts of the errors that the client reported, and whether it wants a token."""

    def set_token(self, token: str, ends_ms: int) -> None:
        """Set the token of SASL/OAUTHBEARER. Raises ValueError if it is not one."""

    def fail_token(self, why: str) -> None:
        """Report that there is no new token: it becomes an error, and the client asks again after some seconds."""

    def close(self) -> None: ...
