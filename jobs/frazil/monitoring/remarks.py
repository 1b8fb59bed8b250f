"""What needs attention: the lines below the table of `frazil status`, and at the top of the page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from frazil.model.pipeline import listed_topics
from frazil.model.spelling import plural
from frazil.status import TableStatus


def remarks(found: Sequence[TableStatus]) -> Iterator[str]:
    """Yield a line for each problem, and for the state of each Delta log."""
    for each in found:
        if each.delta is not None:
            yield f"{each.table}: {each.delta}"
        if each.delta_in_snowflake is not None:
            yield f"{each.table}: {each.delta_in_snowflake}"
        if each.problem is not None:
            yield f"{each.table}: {each.problem}"
        if each.lacks_batch is not None:
            batch = f"batch {each.lacks_batch.batch_id} (epoch {each.lacks_batch.epoch})"
            yield (
                f"{each.table}: lacks {batch}, which the first table of its group has; the next run of"
                " `frazil materialize` completes it first"
            )
        if each.pause is not None:
            hint = each.pause.hint or f"resume it with `frazil resume {each.table}`"
            yield f"{each.table}: paused {each.pause}"
            yield f"    hint: {hint}"
        if each.rolled_back:
            yield f"{each.table}: the table was rolled back; the next run continues from there"
        if each.foreign.snapshots:
            yield (
                f"{each.table}: other writers committed {plural(each.foreign.snapshots, 'snapshot')}"
                f" (+{each.foreign.rows_added:,}"
                f" -{each.foreign.rows_removed:,} rows), the last one: {each.foreign.names[-1]}"
            )
        yield from _of_records(each)
    for problem in dict.fromkeys(each.kafka_problem for each in found if each.kafka_problem):
        yield f"lag is unknown: {problem}"


def _of_records(each: TableStatus) -> Iterator[str]:
    """Yield remarks about outputs, and about fields and records that are left out of the table."""
    for output in each.outputs:
        yield f"{each.table}: {output}"
    if each.left_out:
        yield f"{each.table}: fields left out because their types hold no data: {', '.join(each.left_out)}"
    if each.excluded_schemas:
        ids = ", ".join(map(str, each.excluded_schemas))
        yield (
            f"{each.table}: records with these schemas become dead letters: {ids}; to have later ones as rows, run"
            f" `frazil resume {each.table} --no-dead-letter-schema {each.excluded_schemas[0]}`"
        )
    if each.removed_topics:
        yield (
            f"{each.table}: not read any more, because the spec does not name it: {listed_topics(each.removed_topics)};"
            " its rows stay"
        )
    if each.order is not None:
        yield f"{each.table}: {each.order}"
    if each.rebuild is not None:
        yield (
            f"{each.table}: a rebuild or a rewind has read {each.rebuild.read:,} of {each.rebuild.total:,} offsets; the"
            f" same command continues it, and `frazil rebuild {each.table} --discard` drops it"
        )
    for request in each.replay_requests:
        yield f"{each.table}: the next run replays {request}"
    for reason, count in each.skipped_by_reason.items():
        yield f"{each.table}: {plural(count, 'record')} skipped: {reason}"
