"""Partitions in memory (`ports.RecordReader`): tests/services/test_twins.py compares it with a real one."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field

from frazil.model.plan import OffsetRange
from frazil.records import HeaderList, OptionalFields, Records

Sent = tuple[bytes | None, bytes | None]


@dataclass
class ReaderInMemory:
    """Each partition holds the same; `chunk` records are handed on at a time. None is an offset without a record."""

    records: Sequence[Sent | None]
    chunk: int = 1_000
    first_ms: int = 1_000
    headers: Mapping[int, HeaderList] = field(default_factory=dict)
    stamps: Sequence[int | None] | None = None

    def read(self, ranges: Sequence[OffsetRange], optional: OptionalFields) -> Iterator[Iterator[Records]]:
        del optional
        for wanted in ranges:
            with closing(self._chunks(wanted)) as chunks:
                yield chunks

    def _chunks(self, wanted: OffsetRange) -> Generator[Records]:
        for start in range(wanted.start, wanted.end, self.chunk):
            end = min(start + self.chunk, wanted.end)
            held = [(n, r) for n in range(start, end) if (r := self.records[n]) is not None]
            yield Records.of(
                offsets=[n for n, _ in held],
                timestamps_ms=[self._stamp(n) for n, _ in held],
                keys=[r[0] for _, r in held],
                values=[r[1] for _, r in held],
                headers=[self.headers.get(n, [("h", b"\xff"), ("h", None)]) for n, _ in held],
                next_offset=end,
                last_leader_epoch=3 if held else None,
            )

    def _stamp(self, offset: int) -> int | None:
        if self.stamps is not None:
            return self.stamps[offset]
        return self.first_ms + offset if offset != 1 else None
