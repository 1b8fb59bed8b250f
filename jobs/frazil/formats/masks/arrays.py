"""Masks applied to Arrow arrays."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from frazil.formats.arrow import arrow_schema, null_mask, unsliced
from frazil.formats.decoder import Decoded, Decoder, Payloads
from frazil.formats.families import is_list
from frazil.formats.masks.columns import Mask, Masked
from frazil.formats.masks.hashes import hashed, key_bytes
from frazil.model.errors import SettingError
from frazil.model.policies import REDACTED, Policy
from frazil.model.secret import NamedKey


class MaskedDecoder:
    """Decodes with another decoder, and masks the rows before anything else sees them (`decoder.Decoder`)."""

    def __init__(self, decoder: Decoder, masked: Masked, hash_key: NamedKey | None) -> None:
        self.schema = arrow_schema(masked.columns)
        self._decoder = decoder
        self._masks = masked.masks
        self._masking = _Masking(hash_key)

    def decode(self, payloads: Payloads, *, skip: int = 0) -> Decoded:
        decoded = self._decoder.decode(payloads, skip=skip)
        given = dict(zip(decoded.rows.schema.names, decoded.rows.columns, strict=True))
        arrays = [self._masking.masked(given[name], mask) for name, mask in self._masks.items()]
        return replace(decoded, rows=pa.RecordBatch.from_arrays(arrays, schema=self.schema))


@dataclass(slots=True)
class _Masking:
    """Applies masks; the key of hashes is looked up when the first value is hashed."""

    hash_key: NamedKey | None
    _key: bytes | None = None

    def masked(self, values: pa.Array, mask: Mask | None) -> pa.Array:
        if mask is None:
            return values
        if mask.policy is not None:
            return self._leaf(values, mask.policy)
        if mask.fields is not None:
            return self._struct(values, mask.fields)
        if is_list(values.type):
            return self._list(values, mask.inner)
        return self._map(values, mask.inner)

    def _leaf(self, values: pa.Array, policy: Policy) -> pa.Array:
        match policy.treatment:
            case "hash":
                return hashed(values, self._bytes_of_key())
            case "truncate" if pa.types.is_large_binary(values.type):
                return pc.binary_slice(values, 0, policy.length)
            case "truncate":
                return pc.utf8_slice_codeunits(values, 0, policy.length)
            case _ if pa.types.is_large_string(values.type):
                return pc.if_else(values.is_valid(), pa.scalar(REDACTED, values.type), pa.scalar(None, values.type))
            case _:
                return pa.nulls(len(values), values.type)

    def _struct(self, values: pa.StructArray, masks: Mapping[str, Mask | None]) -> pa.StructArray:
        children = {field.name: values.field(index) for index, field in enumerate(values.type)}
        arrays = {name: self.masked(children[name], mask) for name, mask in masks.items()}
        fields = [pa.field(name, array.type) for name, array in arrays.items()]
        return pa.StructArray.from_arrays(list(arrays.values()), fields=fields, mask=null_mask(values))

    def _list(self, values: pa.Array, inner: Mask | None) -> pa.Array:
        whole = unsliced(values)
        items = self.masked(whole.values, inner)
        wanted = pa.large_list(items.type)
        return pa.LargeListArray.from_arrays(whole.offsets, items, type=wanted, mask=null_mask(whole))

    def _map(self, values: pa.MapArray, inner: Mask | None) -> pa.MapArray:
        whole = unsliced(values)
        items = self.masked(whole.items, inner)
        wanted = pa.map_(whole.keys.type, items.type)
        return pa.MapArray.from_arrays(whole.offsets, whole.keys, items, type=wanted, mask=null_mask(whole))

    def _bytes_of_key(self) -> bytes:
        if self._key is None:
            if self.hash_key is None:
                raise SettingError(
                    "values are hashed, and no key of hashes is configured",
                    hint="set `policies: {hash_key: {id: …, secret: …}}` in frazil.yaml",
                )
            self._key = key_bytes(self.hash_key)
        return self._key
