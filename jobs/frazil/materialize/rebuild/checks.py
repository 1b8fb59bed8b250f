"""Why a table cannot be rebuilt: Kafka lacks records of its rows, or it has rows that no record of a topic made."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from frazil.materialize.foreign import changed_rows, count_foreign
from frazil.materialize.plan import source_problems, together
from frazil.materialize.rebuild.rebuilt_state import ends_of, records_read
from frazil.materialize.rebuild.topics import Offsets
from frazil.materialize.state import Standing, check_format
from frazil.model.errors import FrazilError, RebuildError, RecordsLostError
from frazil.model.moments import rfc3339
from frazil.model.plan import TopicFacts
from frazil.model.progress import ForeignChanges, TableState
from frazil.model.snapshot import Snapshot, TableView
from frazil.model.spec import TableSpec
from frazil.model.spelling import plural

NEW_TABLE = "materialize the topic into another `table`"


def check_topics(spec: TableSpec, state: TableState) -> None:
    """Raise RebuildError if the table has rows of a topic that the spec does not name any more."""
    others = [each.topic for each in state.sources if each.topic not in spec.topics]
    if others:
        raise RebuildError(
            f"{spec.identifier} has rows of {', '.join(others)}, which {spec.source_file} does not name: a rebuild"
            " would lose them",
            hint="name the topic again, rebuild the table, and remove it again",
        )


def check_records(spec: TableSpec, here: Standing, facts: Sequence[TopicFacts], unread: Offsets) -> None:
    """Raise what keeps the topics from being read again: RecordsLostError, or SourceChangedError.

    `unread` are the first offsets that are not read again yet.
    """
    check_format(here.view)
    problems: list[FrazilError] = [*source_problems(spec, here, facts), *_lost(spec, here.state, facts, unread)]
    if problems:
        raise together(problems)


def _lost(
    spec: TableSpec, state: TableState, facts: Sequence[TopicFacts], unread: Offsets
) -> Iterator[RecordsLostError]:
    for topic in facts:
        for number, first in sorted(unread[topic.topic].items()):
            there = topic.partitions.get(number)  # a topic that was made again may have fewer
            earliest = first if there is None else there.earliest
            if earliest > first and records_read(state, topic.topic, number):
                yield RecordsLostError(
                    f"{spec.identifier}: {topic.topic}-{number} is to be read again from offset {first} on, and the"
                    f" oldest record left in Kafka is {earliest}: the rows of {plural(earliest - first, 'offset')}"
                    " would be lost; readers see the table as it was",
                    hint=f"{NEW_TABLE}, which begins with what Kafka has, and keep this one for the older rows; or"
                    " change `start` in the spec to where the rebuilt table is to begin",
                )


def check_foreign(spec: TableSpec, here: Standing, *, before: ForeignChanges) -> None:
    """Raise RebuildError if others have changed rows of the table, after `before`: a rebuild undoes what they did."""
    changes = count_foreign(here)
    if not changed_rows(changes, before):
        return
    raise RebuildError(
        f"{spec.identifier}: other writers have added {plural(changes.rows_added, 'row')} and removed"
        f" {changes.rows_removed:,}, the last of them in {', '.join(changes.names)}: a rebuild has what the topics"
        " have, and nothing of this",
        hint="make sure that nothing has to stay deleted or changed, then run it again with --drop-foreign-changes",
    )


def check_own(spec: TableSpec, here: Standing, built: Standing, *, begun: int | None, base: int | None) -> None:
    """Raise RebuildError if another process has begun another rebuild since this one began.

    `begun` is the snapshot that the branch had then, and `base` the one that a rewind begins at.
    """
    of_table, of_built = ({s.id: s for s in each.view.ancestry(each.view.head)} for each in (here, built))
    fork = next((each for each in of_built if each in of_table), None)
    if begun not in of_built or (base is not None and fork not in (None, base)):
        raise built_is_gone(spec)


def is_ahead(built: TableState, table: TableState) -> bool:
    """Return whether what is built has read offsets that the table has not read, since it was rolled back."""
    ends = ends_of(table)
    return any(end > ends.get(place, end) for place, end in ends_of(built).items())


def check_not_ahead(spec: TableSpec, here: Standing, built: Standing) -> None:
    """Raise RebuildError if the table was rolled back behind what was built."""
    if is_ahead(built.state, here.state):
        raise RebuildError(
            f"{spec.identifier}: the table was rolled back to epoch {here.state.epoch} meanwhile, and its"
            " rebuild has records that the table has not read now; nothing was changed",
            hint="run the command again, which begins again from the beginning",
        )


def check_base(spec: TableSpec, base: Snapshot, view: TableView) -> None:
    """Raise RebuildError if the snapshot that a rewind was to begin at has expired."""
    if base.id not in view.snapshots:
        raise RebuildError(
            f"{spec.identifier}: snapshot {base.id} of {rfc3339(base.committed_at)}, where the rewind was to begin,"
            " has expired meanwhile; nothing was changed",
            hint="run the command again, which begins at an earlier snapshot if there is one; or rewind to a later time"
            f" or offset, or read all records again: `frazil rebuild {spec.identifier}`",
        )


def built_is_gone(spec: TableSpec) -> RebuildError:
    """Return the error for a rebuild whose branch another process has dropped, replaced or published."""
    return RebuildError(
        f"{spec.identifier}: what was built of the table is gone: another process dropped it, has begun another"
        " rebuild, or has replaced the table with it; or its snapshots have expired",
        hint=f"run `frazil status {spec.identifier}`; if its epoch is the former one, run it again",
    )
