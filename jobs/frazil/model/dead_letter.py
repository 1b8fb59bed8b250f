"""Records that could not become rows, and why."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from frazil.model.spelling import plural

HIDDEN_DETAIL = "hidden, because the table masks columns"


class Reason(StrEnum):
    """Why a record is a dead letter. The values are stored in tables: add new ones, but never change one."""

    NULL_VALUE = "null_value"
    """The record is a tombstone, and the table spec makes tombstones dead letters."""
    NOT_FRAMED = "not_framed"
    """The record does not name a schema in the way of the spec's wire format."""
    BAD_COMPRESSION = "bad_compression"
    """The payload is not one complete stream of the compression that its wire format names."""
    UNKNOWN_SCHEMA_ID = "unknown_schema_id"
    """The registry has no schema with this id."""
    WRONG_SCHEMA_TYPE = "wrong_schema_type"
    """The schema with this id has another format than the table spec."""
    TRUNCATED = "truncated"
    """The payload ends inside a value."""
    TRAILING_BYTES = "trailing_bytes"
    """The payload has more bytes after the end of the value."""
    BAD_VARINT = "bad_varint"
    """An integer has more bits, or takes more bytes, than its type allows."""
    BAD_BOOLEAN = "bad_boolean"
    """The byte of a boolean is neither 0 nor 1."""
    BAD_INDEX = "bad_index"
    """The index of a union branch, an enum symbol or a Protobuf message does not exist in the schema."""
    BAD_LENGTH = "bad_length"
    """A length is negative or greater than the number of remaining bytes."""
    BAD_TAG = "bad_tag"
    """A Protobuf field number is 0, or a wire type does not exist or is not that of the field."""
    WRONG_MESSAGE = "wrong_message"
    """The record is another Protobuf message of the schema than the one that makes the rows."""
    BAD_UTF8 = "bad_utf8"
    """A string is not valid UTF-8."""
    BAD_JSON = "bad_json"
    """The payload is not one valid JSON text."""
    DUPLICATE_KEY = "duplicate_key"
    """An object of a JSON payload has a key twice."""
    WRONG_TYPE = "wrong_type"
    """A JSON value has another type than its schema says."""
    BAD_FORMAT = "bad_format"
    """A text of a JSON payload is not in the format of its schema, such as a date that does not exist."""
    OUT_OF_RANGE = "out_of_range"
    """A value is outside the range of its logical type, such as a time of day of 24 hours or more."""
    TOO_LARGE = "too_large"
    """The value is nested too deeply, or expands from a few bytes to too many values in columns."""
    REFUSED_SCHEMA = "refused_schema"
    """The table cannot hold the writer schema, and a user ran `frazil resume --dead-letter-schema` for it."""
    NULL_IDENTITY = "null_identity"
    """A part of the identity is null, in a table that follows keys."""
    NULL_ORDER = "null_order"
    """The column that orders the records of a key is null, in a table that follows keys."""
    BAD_KEY = "bad_key"
    """The key cannot be decoded as the table spec requires; `detail` starts with the reason, one of the above."""
    NO_ROUTE = "no_route"
    """The table spec has routes, and none of them takes the record."""
    NOT_AN_ENVELOPE = "not_an_envelope"
    """The value is not a change event, and the table spec says that values are."""
    UNKNOWN_OPERATION = "unknown_operation"
    """The `op` of a change event is none of those that Debezium writes."""
    MISSING_AFTER = "missing_after"
    """A change event adds a row and does not have it."""
    PARTIAL_UPDATE = "partial_update"
    """A change event of MongoDB describes what changed and does not have the document."""
    UNREADABLE_HEADERS = "unreadable_headers"
    """The table keeps headers, and the Kafka client cannot decode this record's headers."""
    DEFECT = "defect"
    """An unexpected error in Frazil on this record, at every attempt."""


def described(reason: str, detail: str, path: str) -> str:
    """Return why a record could not become a row, with the path in it, if there is one."""
    return f"{reason} at {path}: {detail}" if path else f"{reason}: {detail}"


class Reject(NamedTuple):
    """One payload that a decoder rejected. `index` is its position among the payloads of the call.

    `path` is the dotted path in the record (`order.items[].price`), or empty for the record as a whole. It is a named
    tuple because one takes half as long to create as a frozen dataclass, and a batch may have many.
    """

    index: int  # type: ignore[assignment]  # instead of the method of tuples
    reason: Reason
    detail: str
    path: str = ""

    def __str__(self) -> str:
        return described(self.reason.value, self.detail, self.path)

    def at(self, index: int) -> Reject:
        """Return this as the reject of the payload with another index."""
        return Reject(index, self.reason, self.detail, self.path)


def told_of_replayed(count: int, *, all_are_rows: bool, more: str = "") -> str:
    """Return how many dead letters are none any more: `2 more were replayed and are rows`."""
    one, many = (" and is a row", " and are rows") if all_are_rows else ("", "")
    return plural(count, f"{more}was replayed{one}", f"{more}were replayed{many}")
