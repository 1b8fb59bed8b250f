"""Records that could not become rows, and why."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Reason(StrEnum):
    """Why a record is a dead letter. The names are stored in tables: they are added to, never changed."""

    NULL_VALUE = "null_value"
    """A tombstone, where the spec says that tombstones are dead letters."""
    NOT_FRAMED = "not_framed"
    """Shorter than five bytes, or the first byte is not the magic 0 of the registry's wire format."""
    UNKNOWN_SCHEMA_ID = "unknown_schema_id"
    """The registry answered that it has no schema of this id."""
    WRONG_SCHEMA_TYPE = "wrong_schema_type"
    """The id names a schema of another format than the spec's."""
    TRUNCATED = "truncated"
    """The payload ends inside a value."""
    TRAILING_BYTES = "trailing_bytes"
    """Bytes are left over after the whole record."""
    BAD_VARINT = "bad_varint"
    """An int of more than 32 bits, a long of more than 64, or more bytes than the specification allows."""
    BAD_BOOLEAN = "bad_boolean"
    """A boolean byte other than 0 and 1."""
    BAD_INDEX = "bad_index"
    """A union branch or an enum symbol that the schema does not have."""
    BAD_LENGTH = "bad_length"
    """A negative length, or one that does not fit the bytes that follow."""
    BAD_UTF8 = "bad_utf8"
    """A string that is not UTF-8."""
    OUT_OF_RANGE = "out_of_range"
    """A value outside its logical type: a decimal wider than its precision, a time of day past midnight."""
    TOO_LARGE = "too_large"
    """More than a reader can hold: records inside themselves too often, or too many empty values in a few bytes."""
    REFUSED_SCHEMA = "refused_schema"
    """The table has no place for the writer schema, and `frazil resume --dead-letter-schema` gave up on it."""
    BAD_KEY = "bad_key"
    """The key cannot be read as the spec says; `detail` says which of the above it is."""
    UNREADABLE_HEADERS = "unreadable_headers"
    """The table keeps headers, and the Kafka client cannot decode those of the record."""
    DEFECT = "defect"
    """Frazil itself failed on this record, each time that it tried."""


@dataclass(frozen=True, slots=True)
class Reject:
    """One payload that a decoder refused: its index in what was given, why, what was wrong, and where.

    `path` is the dotted path inside the record (`order.items[].price`), empty for the record as a whole.
    """

    index: int
    reason: Reason
    detail: str
    path: str = ""
