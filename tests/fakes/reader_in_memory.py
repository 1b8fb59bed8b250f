"""A partition in memory (`ports.RecordReader`): tests/services/test_twins.py compares it with a real one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from frazil.model.plan import OffsetRange
from frazil.records import Headers, OptionalFields, Records, UnreadableHeaders, binary

Sent = tuple[bytes | None, bytes | None]


@dataclass
class ReaderInMemory:
    """One partition; `chunk` records are handed on at a time. None is an offset without a record."""

    records: Sequence[Sent | None]
    chunk: int = 1_000
    first_ms: int = 1_000
    headers: Mapping[int, Headers | UnreadableHeaders | None] = field(default_factory=dict)
    stamps: Sequence[int | None] | None = None

    def read(self, wanted_range: OffsetRange, optional: OptionalFields) -> Iterator[Records]:
        del optional
        for start in range(wanted_range.start, wanted_range.end, self.chunk):
            end = min(start + self.chunk, wanted_range.end)
            held = [(n, r) for n in range(start, end) if (r := self.records[n]) is not None]
            yield Records(
                offsets=[n for n, _ in held],
                timestamps_ms=[self._stamp(n) for n, _ in held],
                keys=binary([r[0] for _, r in held]),
                values=binary([r[1] for _, r in held]),
                headers=[self.headers.get(n, [("h", b"\xff"), ("h", None)]) for n, _ in held],
                next_offset=end,
                last_leader_epoch=3 if held else None,
            )

    def _stamp(self, offset: int) -> int | None:
        if self.stamps is not None:
            return self.stamps[offset]
        return self.first_ms + offset if offset != 1 else None
