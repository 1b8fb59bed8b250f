"""Decode payloads of several writer schemas in one call: their rows become one batch, in the order of the payloads.

Decoding them schema by schema and sorting the rows takes longer: each call has a cost, and columns are copied twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from frazil.formats.decoder import Decoded, Decoder, chosen_payloads
from frazil.formats.framing import Group
from frazil.formats.native import NativeColumns, NativeCore, NativeDecoder, decoded
from frazil.formats.placement import ColumnSources

MOST_DECODERS = 1 << 16
"""Their numbers have 16 bits."""


@dataclass(frozen=True, slots=True)
class Writer:
    """The payloads of one writer schema, their decoder, and the fields of its rows that fill the columns of a table."""

    group: Group
    decoder: Decoder
    sources: ColumnSources


class Together:
    """Writer schemas that are decoded together, with the table's columns `target`.

    `sources` are the columns of their rows that fill those of the table.
    """

    def __init__(self, target: pa.Schema) -> None:
        self._names = target.names
        self._types: dict[str, pa.DataType] = {}
        self._cores: dict[tuple[NativeCore, tuple[int | None, ...]], int] = {}
        self._groups: list[tuple[Group, int]] = []
        self.sources: dict[str, str] = {}

    @property
    def groups(self) -> list[Group]:
        return [group for group, _ in self._groups]

    def takes(self, writer: Writer) -> bool:
        """Take a writer schema, and return whether it can be decoded with those before.

        It needs a native decoder of the same format, and the same type for each column that they share.
        """
        decoder = writer.decoder
        if not isinstance(decoder, NativeDecoder) or not self._is_framed_alike(writer.group, decoder.core):
            return False
        columns = tuple(_place(decoder.schema, writer.sources.get(name)) for name in self._names)
        found = zip(self._names, columns, strict=True)
        types = {name: decoder.schema.field(at).type for name, at in found if at is not None}
        if not types or any(self._types.get(name, own) != own for name, own in types.items()):
            return False
        self._types |= types
        self.sources |= {**writer.sources, **{name: name for name in types}}
        self._groups.append((writer.group, self._cores.setdefault((decoder.core, columns), len(self._cores))))
        return True

    def _is_framed_alike(self, group: Group, core: NativeCore) -> bool:
        if group.is_compressed or group.message or len(self._groups) == MOST_DECODERS:
            return False
        same_bytes = all(group.header_bytes == other.header_bytes for other, _ in self._groups[:1])
        return same_bytes and all(type(core) is type(other) for other, _ in self._cores)

    def members(self, count: int) -> npt.NDArray[np.int32]:
        """Return the number of the group of each of `count` payloads, by its place in `groups`; -1 for the others."""
        members = np.full(count, -1, np.int32)
        for number, (group, _) in enumerate(self._groups):
            members[slice(None) if group.indexes is None else group.indexes] = number
        return members

    def decode(
        self, values: pa.LargeBinaryArray, chosen: npt.NDArray[np.int64] | None, members: npt.NDArray[np.int32]
    ) -> Decoded:
        """Decode the values at the indexes `chosen`, of these groups."""
        numbers = np.array([number for _, number in self._groups], np.uint16)[members]
        there = [place for place, name in enumerate(self._names) if name in self._types]
        cores = [core for core, _ in self._cores]
        columns = [[places[place] for place in there] for _, places in self._cores]
        together = NativeColumns([self._names[place] for place in there], columns, pa.array(numbers))
        payloads, skip = chosen_payloads(values, chosen), self._groups[0][0].header_bytes
        return decoded(*type(cores[0]).decode_together(cores, payloads, together, skip))


def divided(writers: Sequence[Writer], target: pa.Schema) -> tuple[Together | None, list[Writer]]:
    """Return the writer schemas that are decoded together, at least two, and the others."""
    together = Together(target)
    others = [writer for writer in writers if not together.takes(writer)]
    return (together, others) if len(together.groups) > 1 else (None, list(writers))


def _place(schema: pa.Schema, source: str | None) -> int | None:
    return None if source is None else int(schema.get_field_index(source))
