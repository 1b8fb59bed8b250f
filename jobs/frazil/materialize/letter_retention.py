"""Delete dead letters that are older than `maintain.keep_dead_letters`, and count them in the same snapshot.

The marks of letters that became rows go with them. A letter whose mark is younger stays as long as its mark: a rollback
of the table of rows could make it a dead letter again.

Nothing is deleted while a batch or a replay is prepared and not revealed, and the commit is refused if one was prepared
meanwhile. A replay that chose its letters before looks again (`replay/perform.py`).
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap64

from frazil.formats.arrow import project
from frazil.maintain.expiring import elapsed_seconds
from frazil.materialize.batch_age import is_old
from frazil.materialize.branches import branch_names
from frazil.materialize.dead_letter_checks import counted_letters
from frazil.materialize.dead_letter_marks import (
    EPOCH_COLUMN,
    MARK_READ,
    LiveReplays,
    Source,
    by_source,
    has_marks,
    marked_offsets,
    offsets_of,
)
from frazil.materialize.dead_letters import tagged, unrevealed
from frazil.materialize.ingest.distribute import write_target
from frazil.materialize.ingest.write import DataFileWriter
from frazil.materialize.rewrite_tags import rewrite_tags
from frazil.materialize.state import CHECKPOINT_TAG, standing
from frazil.model.errors import CommitError, FrazilError
from frazil.model.expired_letters import EXPIRED, Expired, ExpiredLetters, expired_letters
from frazil.model.ingested import WrittenFile
from frazil.model.snapshot import Snapshot, TableView
from frazil.model.spec import TableSpec
from frazil.model.summary import EPOCH, ROWS_UUID, carries_state
from frazil.ports import Lake
from frazil.proof.tally import bitmap_of, sums_of
from frazil.proof.tally import offsets_of as offsets_in

LOG = logging.getLogger(__name__)

RETENTION_PREFIX = "frazil_retention_"
LETTER_READ = ("topic", "generation", "partition", "offset")
_EPOCH_START = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Old:
    """Old dead letters of a table, by place: those to delete and to count, and those that stay with their marks."""

    expired: Mapping[Source, BitMap64]
    replayed: int
    staying: Mapping[Source, BitMap64]


def delete_old_letters(lake: Lake, spec: TableSpec, *, writer: str, now: datetime) -> int:
    """Delete the old dead letters of a table, and return how many of them were no rows.

    An error is only logged, as it keeps no batch from its table; the next look tries again.
    """
    keep = spec.maintain.keep_dead_letters
    if keep is None:
        return 0
    try:
        return _delete(lake, spec, now - keep, writer)
    except CommitError as lost:
        LOG.info("dead_letters_not_expired", extra={"table": spec.dead_letters_identifier, "problem": lost.what})
    except FrazilError as failed:
        LOG.warning("dead_letters_not_expired", extra={"table": spec.dead_letters_identifier, "problem": failed.what})
    return 0


def _delete(lake: Lake, spec: TableSpec, before: datetime, writer: str) -> int:
    began = elapsed_seconds()
    letters = lake.load(spec.dead_letters_identifier)  # before the rows: what is published since has changed a branch
    rows = lake.load(spec.identifier)
    carrier = None if letters is None else last_carrier(letters)
    if letters is None or rows is None or carrier is None or not is_settled(spec, letters, carrier, rows):
        return 0
    old = _old_letters(lake, letters, rows, before)
    if old is None:
        return 0
    gone = ExpiredLetters({(rows.uuid, *source): _figures(each) for source, each in old.expired.items()})
    counted = expired_letters(letters, letters.head, tagged(letters)) + gone
    if not is_counted(spec, rows, counted):
        LOG.warning("dead_letters_not_expired", extra={"table": letters.identifier, "problem": "run `frazil verify`"})
        return 0
    kept = _kept_again(lake, spec, letters, rows, old, before, writer)
    staged = _stage(lake, letters, carrier, counted, kept, _condition(rows, before), writer)
    if not publish_alone(lake, letters, staged, began):
        return 0
    LOG.info(
        "dead_letters_expired",
        extra={"table": letters.identifier, "dead_letters": gone.total, "replayed": old.replayed},
    )
    return gone.total


def last_carrier(letters: TableView) -> Snapshot | None:
    """Return the snapshot of the last batch, whose summary the next snapshot repeats."""
    known = (*letters.ancestry(letters.head), *tagged(letters))
    return next((snapshot for snapshot in known if carries_state(snapshot)), None)


def is_settled(spec: TableSpec, letters: TableView, carrier: Snapshot, rows: TableView) -> bool:
    """Return whether the visible dead letters are those of the last batch, and no other batch is under way."""
    state = standing(rows, pipeline=spec.pipeline).state
    rolled_back = carrier.summary.get(ROWS_UUID) == rows.uuid and int(carrier.summary[EPOCH]) > state.epoch
    return not rolled_back and not unrevealed(letters, rows.uuid, since=state.epoch)


def _old_letters(lake: Lake, letters: TableView, rows: TableView, before: datetime) -> Old | None:
    """Return the letters that were read before a time; None if there are none, and no marks of that age."""
    columns = (*LETTER_READ, *((EPOCH_COLUMN, "batch_id") if has_marks(letters) else ()))
    found: dict[Source, BitMap64] = {}
    some = False
    for batch in _read_before(lake, letters, rows, columns, before):
        some = some or batch.num_rows > 0
        for source, part in by_source(_without_marks(batch)):
            found.setdefault(source, BitMap64()).update(bitmap_of(offsets_of(part)))
    if not some:
        return None
    old_marks, young_marks = _marks(lake, letters, rows, before)
    staying = {source: each & young_marks.get(source, BitMap64()) for source, each in found.items()}
    replayed = {source: (each & old_marks.get(source, BitMap64())) - staying[source] for source, each in found.items()}
    expired = {source: each - staying[source] - replayed[source] for source, each in found.items()}
    return Old({s: each for s, each in expired.items() if each}, sum(map(len, replayed.values())), staying)


def _marks(
    lake: Lake, letters: TableView, rows: TableView, before: datetime
) -> tuple[Mapping[Source, BitMap64], Mapping[Source, BitMap64]]:
    """Return the letters that replays marked before a time, and those that they marked since."""
    if not has_marks(letters):
        return {}, {}
    columns, equal = (*MARK_READ, "read_at"), {"table_uuid": rows.uuid}
    found = list(lake.read(letters, columns=columns, equal=equal, present=(EPOCH_COLUMN,)))
    replays, limit = LiveReplays.of(rows), pa.scalar(before, pa.timestamp("us", "UTC"))
    are_old = [pc.less(marks.column("read_at"), limit) for marks in found]
    old = (marks.filter(is_old) for marks, is_old in zip(found, are_old, strict=True))
    young = (marks.filter(pc.invert(is_old)) for marks, is_old in zip(found, are_old, strict=True))
    return marked_offsets(old, replays), marked_offsets(young, replays)


def _read_before(
    lake: Lake, letters: TableView, rows: TableView, columns: tuple[str, ...], before: datetime
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of the dead-letter table, marks included, that are of a table of rows and older than a time."""
    until = (before - _EPOCH_START) // timedelta(microseconds=1)
    equal = {"table_uuid": rows.uuid}
    return lake.read(letters, columns=columns, equal=equal, between=("read_at", 0, until))


def _without_marks(batch: pa.RecordBatch) -> pa.RecordBatch:
    return batch.filter(batch.column(EPOCH_COLUMN).is_null()) if EPOCH_COLUMN in batch.schema.names else batch


def _figures(offsets: BitMap64) -> Expired:
    return Expired(len(offsets), sums_of(offsets_in(offsets)))


def is_counted(spec: TableSpec, rows: TableView, expired: ExpiredLetters) -> bool:
    """Return whether the state counts as many dead letters as were deleted: others may have removed marks."""
    state = standing(rows, pipeline=spec.pipeline).state
    return all(expired.of((rows.uuid, *source)).count <= count for source, count in counted_letters(state).items())


def _kept_again(
    lake: Lake, spec: TableSpec, letters: TableView, rows: TableView, old: Old, before: datetime, writer: str
) -> tuple[WrittenFile, ...]:
    """Write the old letters that stay to new files, since all that is old is taken out."""
    if not any(old.staying.values()):
        return ()
    files = DataFileWriter(
        write_target(letters),
        storage=lake.storage,
        prefix=f"{writer}-kept",
        target_bytes=spec.maintain.target_file_bytes,
    )
    for batch in _read_before(lake, letters, rows, ("*",), before):
        for source, part in by_source(_without_marks(batch)):
            stay = pa.array([offset in old.staying[source] for offset in offsets_of(part).tolist()], pa.bool_())
            files.add(project(part.filter(stay), files.arrow_schema))
    return files.close()


def _condition(rows: TableView, before: datetime) -> str:
    return f"table_uuid = '{rows.uuid}' AND read_at < '{before.isoformat(timespec='microseconds')}'"


def _stage(
    lake: Lake,
    letters: TableView,
    carrier: Snapshot,
    counted: ExpiredLetters,
    kept: tuple[WrittenFile, ...],
    condition: str,
    writer: str,
) -> str:
    """Return the branch that has the letters which stay."""
    assert letters.head is not None  # noqa: S101 - it has a carrier
    repeated = {n: text for n, text in carrier.summary.items() if n.startswith("frazil.") and n != EXPIRED}
    figures, document = counted.stored()
    branch = next(branch_names(f"{RETENTION_PREFIX}{letters.head}_", writer))
    lake.stage(
        letters,
        base=letters.head,
        branch=branch,
        files=kept,
        summary={**repeated, **figures},
        document=document,
        without=condition,
    )
    return branch


def publish_alone(lake: Lake, letters: TableView, branch: str, began: float) -> bool:
    """Make the branch visible, unless others have committed or its files are too old: the next look begins again."""
    staged = lake.load(letters.identifier)
    if staged is None or staged.head != letters.head or _others(staged) != _others(letters) or is_old(began):
        return False
    drop = [*(name for name in staged.branches if name.startswith(RETENTION_PREFIX)), *rewrite_tags(staged)]
    lake.publish(staged, branch=branch, tag=CHECKPOINT_TAG, drop=drop, alone=True)
    return True


def _others(letters: TableView) -> Mapping[str, int]:
    """Return the branches of batches and of others."""
    return {name: head for name, head in letters.branches.items() if not name.startswith(RETENTION_PREFIX)}
