"""Record keys as a column: bytes, text, or decoded by a schema."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from frazil.formats.decoder import Decoder, Indexes, accepted
from frazil.formats.mapped import VALUE
from frazil.materialize.ingest.payloads import Part, narrow
from frazil.model.dead_letter import Reason, Reject
from frazil.modes.identified import IdentityPaths


def plain_keys(keys: pa.LargeBinaryArray, field: pa.Field, plain: Decoder) -> Part:
    """Keys without a registered schema, after their policy; those that the column cannot hold are refused."""
    decoded = plain.decode(keys)
    column = decoded.rows.column(0).cast(field.type)
    if not decoded.rejects:
        return Part([column], None, ())
    rejects = tuple(Reject(r.index, Reason.BAD_KEY, f"{r.reason.value}: {r.detail}") for r in decoded.rejects)
    return Part([column], accepted(keys, decoded.rejects), rejects)


def key_schema(field: pa.Field) -> pa.Schema:
    """The columns that a key's schema maps to: the record's own, or the one column `value` of any other type."""
    if pa.types.is_struct(field.type):
        return pa.schema([field.type.field(n) for n in range(field.type.num_fields)])
    return pa.schema([field.with_name(VALUE)])


def decoded_keys(part: Part, field: pa.Field, keys: pa.LargeBinaryArray) -> Part:
    """Return decoded keys as the table's one key column."""
    column = _as_struct(part, field, keys) if pa.types.is_struct(field.type) else part.columns[0]
    return Part(
        [column], part.accepted, bad_keys(part.rejects, field.name), part.writers, part.truncated_nanos, part.undeclared
    )


def with_identities(keys: Part, column: str, identity: IdentityPaths, records: int) -> Part:
    """Return the keys with two further columns, the halves of their identity. Those without one are refused.

    `column` is the name of the key column, in which the identity is, and `records` the number of records of the chunk.
    """
    if not keys.columns:  # no schema of keys was met yet
        none = [pa.nulls(records if keys.accepted is None else len(keys.accepted))]
        keys = replace(keys, columns=[none[0].cast(pa.int64())])
    found = identity.of({column: keys.columns[0]})
    whole = replace(keys, columns=[*keys.columns, *found.columns])
    if not found.column(0).null_count:
        return whole
    accepted, nulls = with_identity(found.column(0), keys.accepted, records, identity.text)
    columns = narrow(whole.columns, keys.accepted, accepted)
    return replace(whole, columns=columns, accepted=accepted, rejects=(*keys.rejects, *nulls))


def with_identity(
    first: pa.Int64Array, given: Indexes | None, records: int, column: str
) -> tuple[Indexes, tuple[Reject, ...]]:
    """Return the indexes of those given records that have an identity, and the others as rejects.

    `first` has the first half of each one's identity, from the columns named `column`.
    """
    everything = np.arange(records) if given is None else given
    has_identity = first.is_valid().to_numpy(zero_copy_only=False)
    nulls = tuple(
        Reject(index, Reason.NULL_IDENTITY, "the identity is null, or a part of it", column)
        for index in everything[~has_identity].tolist()
    )
    return everything[has_identity], nulls


def bad_keys(rejects: Sequence[Reject], column: str) -> tuple[Reject, ...]:
    """Return refused keys as rejects of their records, with paths inside the key column."""
    return tuple(
        r
        if r.reason is Reason.REFUSED_SCHEMA
        else Reject(r.index, Reason.BAD_KEY, f"{r.reason.value}: {r.detail}", f"{column}.{r.path}".rstrip("."))
        for r in rejects
    )


def former_key_names(former_names: Mapping[str, tuple[str, ...]], field: pa.Field) -> dict[str, tuple[str, ...]]:
    """Return the former names of fields within the key column, by their paths in `key_schema`."""
    start = f"{field.name}." if pa.types.is_struct(field.type) else field.name
    root = "" if pa.types.is_struct(field.type) else VALUE
    inside = {path: names for path, names in former_names.items() if path.startswith(start)}
    return {root + path.removeprefix(start): names for path, names in inside.items()}


def _as_struct(part: Part, field: pa.Field, keys: pa.LargeBinaryArray) -> pa.Array:
    chosen = keys if part.accepted is None else keys.take(pa.array(part.accepted))
    return pa.StructArray.from_arrays(part.columns, fields=list(key_schema(field)), mask=chosen.is_null())
