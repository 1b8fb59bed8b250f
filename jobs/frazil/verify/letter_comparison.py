"""Compare dead letters with their records: byte for byte, and for the reason that decoding them again gives."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from frazil.materialize.ingest.dead_rows import timestamps
from frazil.materialize.letter_encryption import key_id_of
from frazil.model.dead_letter import Reason
from frazil.model.errors import IncompatibleSchemaError
from frazil.model.spec import METADATA_NAMES, TableSpec
from frazil.model.spelling import plural
from frazil.proof.tally import TopicPartition
from frazil.records import Records
from frazil.verify.columns import differing
from frazil.verify.judging import Judge
from frazil.verify.letters import TEXT_KEYED_HEADERS
from frazil.verify.quoting import Quoting

_SEALED = frozenset({"key", "value", "headers"})
"""What is encrypted of a letter, and compared."""

_WRITERS = frozenset({"schema_id", "schema_uuid"})

NOT_DERIVED = frozenset(
    map(str, (Reason.UNKNOWN_SCHEMA_ID, Reason.REFUSED_SCHEMA, Reason.UNREADABLE_HEADERS, Reason.DEFECT))
)
"""Reasons that the record alone does not show: the registry, the schemas excluded by `resume`, the columns that the
table keeps and Frazil itself may have been others when it was read."""


@dataclass(frozen=True, slots=True)
class _Verdict:
    """Why a record cannot become a row. `cause` is the reason; of a bad key, the reason why it could not be read."""

    reason: str
    path: str | None
    cause: str

    @staticmethod
    def of(reason: str, path: str | None, detail: str | None) -> _Verdict:
        if reason != Reason.BAD_KEY:
            return _Verdict(reason, path, reason)
        if key_id_of(detail) is None:
            return _Verdict(reason, path, (detail or "").partition(":")[0])
        may_be_unknown = "." not in (path or "")  # the detail is encrypted, and an unknown schema has no path
        return _Verdict(reason, path, Reason.UNKNOWN_SCHEMA_ID if may_be_unknown else reason)


@dataclass(slots=True)
class LetterComparison:
    """Compares the dead letters of one partition. `judge` decodes their records again.

    `routed_since` is the first offset that the present routes of a group have divided. `sealed` counts letters by the
    id of the key that they are encrypted with, if it is not the configured one.
    `decodable` counts those whose records can be decoded now, though the table may not hold their schema.
    `earlier` judges have read the records before an offset; `of_earlier` counts the letters that only they explain.
    """

    source: TopicPartition
    judge: Judge
    quoting: Quoting = field(default_factory=Quoting)
    routed_since: int = 0
    sealed: Counter[str] = field(default_factory=Counter)
    decodable: int = 0
    earlier: Sequence[tuple[int, Judge]] = ()
    of_earlier: int = 0

    def differences(self, records: Records, stored: pa.RecordBatch) -> Iterator[tuple[int, str]]:
        """Yield the offset of each difference between records and their letters, and what it is."""
        offsets, quoted = records.offsets.to_pylist(), self.quoting.value
        unread = np.zeros(len(records), np.bool_)
        for index, (key_id, problem) in enumerate(zip(*_unread(stored), strict=True)):
            unread[index] = key_id is not None or problem is not None
            if key_id is not None:
                self.sealed[key_id] += 1
            elif problem is not None:
                yield offsets[index], f"dead letter: {problem}"
        for name, there in self._columns(records):
            here = stored.column(name)
            differs = differing(here, there) & self._is_compared(name, here, unread)
            for index in np.flatnonzero(differs).tolist():
                yield offsets[index], f"dead letter, {name}: {quoted(here[index])}, {quoted(there[index])} in Kafka"
        yield from self._misjudged(records, stored)

    def _is_compared(self, name: str, here: pa.Array, unread: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
        """Return which letters have their value of a column: encrypted ones may lack the id of an unknown schema."""
        if name in _SEALED:
            return ~unread
        if name in _WRITERS and self.judge.spec.masked:
            return np.asarray(here.is_valid().to_numpy(zero_copy_only=False), np.bool_)
        return np.ones(len(unread), np.bool_)

    def notes(self, spec: TableSpec) -> Iterator[str]:
        """Yield what was not compared, and how many could become rows."""
        key, name = spec.dead_letter_key, f"{self.source[0]}-{self.source[1]}"
        configured = (
            "no dead_letter_key is configured" if key is None else f"the configured dead_letter_key is {key.id}"
        )
        for key_id, count in sorted(self.sealed.items()):
            what = f"{plural(count, 'dead letter')} under the key {key_id}: {configured}"
            yield f"{name}: not compared are key, value and headers of {what}"
        if self.decodable:
            records = "record" if self.decodable == 1 else "records"
            what = f"the {records} of {plural(self.decodable, 'dead letter')} can be decoded now"
            rest = f"; `frazil rebuild {spec.identifier}` applies those that it leaves" if spec.follows_keys else ""
            yield f"{name}: {what}: `frazil dead-letters replay` turns such letters into rows{rest}"

    def _columns(self, records: Records) -> Iterator[tuple[str, pa.Array]]:
        headers = records.headers.checked()
        yield "key", records.keys
        yield "value", records.values
        yield "timestamp", timestamps(records.timestamps_ms, pa.timestamp("us", "UTC"))
        yield "headers", headers.lists.cast(TEXT_KEYED_HEADERS)
        yield from self.judge.named_writers(records.values, headers).items()

    def _misjudged(self, records: Records, stored: pa.RecordBatch) -> Iterator[tuple[int, str]]:
        derived = self._derived_one_by_one(records)
        wrong: dict[int, str] = {}
        for offset, letter in _judged(records, stored):
            found = derived.get(offset)
            if found is None and letter.reason == Reason.NO_ROUTE and offset >= self.routed_since:
                wrong[offset] = f"reason: {letter.reason}, but a route takes the record"
            elif found is None:
                self.decodable += letter.reason != Reason.REFUSED_SCHEMA
            elif (what := self._difference(offset, letter, found)) is not None:
                wrong[offset] = what
        for offset in self._explained(records, stored, wrong):
            del wrong[offset]
            self.of_earlier += 1
        for offset, what in wrong.items():
            yield offset, f"dead letter, {what}"

    def _explained(self, records: Records, stored: pa.RecordBatch, wrong: Collection[int]) -> set[int]:
        """Return the letters among those with another reason or path now that have those of an earlier spec."""
        explained: set[int] = set()
        for until, judge in self.earlier:
            offsets = [offset for offset in wrong if offset < until and offset not in explained]
            is_left = pc.is_in(records.offsets, pa.array(offsets, pa.int64()))
            left = records.filter(is_left)
            derived = self._derived_if_placed(judge, left) if len(left) else {}
            for offset, letter in _judged(left, stored.filter(is_left)):
                found = derived.get(offset)
                if found is not None and self._difference(offset, letter, found) is None:
                    explained.add(offset)
        return explained

    def _difference(self, offset: int, letter: _Verdict, found: _Verdict) -> str | None:
        """Return how a letter differs from what decoding its record gives; None if it does not."""
        if not self._is_derived(offset, letter, found):
            return None
        if letter.reason != found.reason:
            return f"reason: {letter.reason}, but decoding the record gives {found.reason}"
        if letter.path == found.path or _are_one_place(letter.path, found.path):
            return None
        here, there = self.quoting.value(pa.scalar(letter.path)), self.quoting.value(pa.scalar(found.path))
        return f"path: {here}, but decoding the record gives {there}"

    def _is_derived(self, offset: int, letter: _Verdict, found: _Verdict) -> bool:
        """Return whether the record alone gives the reason: other routes may have divided it, or a bad key refused a
        tombstone that was to become a row."""
        reasons = letter.reason, found.reason
        if offset < self.routed_since and Reason.NO_ROUTE in reasons:
            return False
        return not {letter.cause, found.cause} & NOT_DERIVED and reasons != (Reason.BAD_KEY, Reason.NULL_VALUE)

    def _derived_one_by_one(self, records: Records) -> Mapping[int, _Verdict]:
        """Return what the present spec gives. If fields of some cannot be placed: one by one."""
        try:
            return self._derived(self.judge, records)
        except IncompatibleSchemaError:
            each = (records.filter(pc.equal(records.offsets, offset)) for offset in records.offsets)
            found = (self._derived_if_placed(self.judge, record) for record in each)
            return dict(chain.from_iterable(one.items() for one in found))

    def _derived_if_placed(self, judge: Judge, records: Records) -> Mapping[int, _Verdict]:
        """Return what a spec gives: nothing if its fields cannot be placed onto the columns of the table."""
        try:
            return self._derived(judge, records)
        except IncompatibleSchemaError:
            return {}

    def _derived(self, judge: Judge, records: Records) -> Mapping[int, _Verdict]:
        found: dict[int, _Verdict] = {}
        for decoded in judge.decode(*self.source, records):
            if (letters := decoded.dead_letters) is not None:
                offsets = letters.column("offset").to_pylist()
                found.update(zip(offsets, _verdicts(letters), strict=True))
        return found


def _judged(records: Records, stored: pa.RecordBatch) -> Iterator[tuple[int, _Verdict]]:
    """Yield the offset of each letter, and its verdict."""
    yield from zip(records.offsets.to_pylist(), _verdicts(stored), strict=True)


def _verdicts(letters: pa.RecordBatch) -> Iterator[_Verdict]:
    return map(_Verdict.of, *(letters.column(name).to_pylist() for name in ("reason", "path", "detail")))


def _unread(stored: pa.RecordBatch) -> tuple[list[str | None], list[str | None]]:
    return stored.column("sealed_with").to_pylist(), stored.column("spoiled").to_pylist()


def _are_one_place(stored: str | None, derived: str | None) -> bool:
    """Return whether both paths lead into one metadata column, whose prefix may be another one since."""
    here, there = ((each or "").partition(".") for each in (stored, derived))
    return here[1:] == there[1:] and any(here[0].endswith(name) and there[0].endswith(name) for name in METADATA_NAMES)
