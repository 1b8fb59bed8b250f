"""What the tasks returned, checked and added up: the batch's receipt and the table's next state."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from values_of_tables import NOW, SPEC, progress, state, topic

from frazil.cli.receipt_lines import lines, logged_lines
from frazil.materialize.account import Ingested, gather, next_state, receipt_of
from frazil.materialize.pause.limits import check_limits, through
from frazil.materialize.pause.pausing import accepted_through, pause_by_run, pause_property
from frazil.model.errors import BadRecordLimitError, CountMismatchError
from frazil.model.ingested import RangeResult, RouteFiles, RouteRows, TaskResult, WrittenFile
from frazil.model.plan import BatchPlan, OffsetRange, PartitionFacts, TopicFacts, WriterSchemas
from frazil.model.progress import MODULUS, Counts, OffsetSums, PartitionProgress, SourceProgress
from frazil.model.routes import Group, Route
from frazil.model.schemas import RegisteredSchema
from frazil.model.spec import BadRecordLimit, TableSpec

BEFORE = NOW - timedelta(hours=1)
OFF = BadRecordLimit.off()


def planned(*ranges: tuple[int, int, int], facts: TopicFacts | None = None, **more: Any) -> BatchPlan:
    """Of partitions, each with start and end, which is where the partition ends as well."""
    offsets = tuple(OffsetRange("orders", n, start, end, max(end, 100), 1_000) for n, start, end in ranges)
    facts = facts or topic({n: (0, 100) for n, _, _ in ranges})
    return BatchPlan("lake.orders", "b4", 1, more.pop("state", state()), offsets, WriterSchemas({}, {}), (facts,))


def result(partition: int, start: int, end: int, *, rows: int | None = None, **more: Any) -> RangeResult:
    """All offsets are rows unless said otherwise."""
    made = end - start if rows is None else rows
    counts = more.pop("counts", Counts(read=made, rows=made))
    values: dict[str, Any] = {
        "topic": "orders",
        "partition": partition,
        "start": start,
        "end": end,
        "stopped_by": "end",
        "counts": counts,
        "sums": OffsetSums(),
        "gaps": end - start - counts.read,
        "payload_bytes": 10,
        "leader_epoch": None,
        "skipped_by_reason": {},
        "dead_letters_by_reason": {},
    }
    return RangeResult(**{**values, **more})


def task(*ranges: RangeResult, rows: int | None = None, dead: int | None = None, **more: Any) -> TaskResult:
    """A task whose files hold what its ranges say, unless said otherwise."""
    counted = sum((each.counts for each in ranges), Counts())
    row_files = WrittenFile("rows", counted.rows if rows is None else rows, 500, (), 0)
    dead_files = WrittenFile("dead", counted.dead_letters if dead is None else dead, 50, (), 0)
    return TaskResult(ranges, (row_files,), (dead_files,), **more)


@pytest.mark.parametrize(
    ("results", "said"),
    [
        ([], "the ranges read: expected [('orders', 0, 5)], found []"),
        ([task(result(0, 5, 9)), task(result(0, 5, 9))], "the ranges read"),
        ([task(result(0, 4, 9))], "the ranges read"),
        ([task(result(1, 5, 9))], "the ranges read"),
        ([task(result(0, 5, 9), rows=3)], "rows in files: expected 4, found 3"),
        ([task(result(0, 5, 9), dead=1)], "dead letters in files: expected 0, found 1"),
        (
            [task(result(0, 5, 9, counts=Counts(read=4, rows=3)))],
            "orders-0: 4 read = 3 rows + 0 deletes + 0 duplicates + 0 dead letters + 0 skipped",
        ),
        ([task(result(0, 5, 10, counts=Counts(4, 4)))], "orders-0: end 10 within the plan"),
        ([task(result(0, 5, 4, counts=Counts()))], "orders-0: end 4 within the plan"),
        ([task(result(0, 5, 8))], "orders-0: read to its end unless stopped"),
        ([task(result(0, 5, 9, rows=5))], "orders-0: no more records than offsets"),
    ],
)
def test_a_sum_that_does_not_agree_is_named_and_nothing_is_published(results: Sequence[TaskResult], said: str) -> None:
    with pytest.raises(CountMismatchError) as mismatch:
        gather(planned((0, 5, 9)), results)

    assert said in mismatch.value.what
    assert "nothing was published" in mismatch.value.what


GROUP = Group("lake", "events", (Route("orders", "shop.Order"), Route("refunds", "shop.Refund")))
DIVIDED = (RouteRows(2, OffsetSums(11, 61)), RouteRows(1, OffsetSums(7, 49)))
"""Of the offsets 5 to 8: 5 and 6 in the first table, 7 in the second, and 8 is a dead letter."""


def group_task(*rows: int, routes: tuple[RouteRows, ...] = DIVIDED) -> TaskResult:
    """A task of a group with one range and a file of so many rows for each table."""
    counts = Counts(read=4, rows=3, dead_letters=1)
    divided = result(0, 5, 9, counts=counts, routes=routes, dead_letters_by_reason={"no_route": 1})
    files = tuple(RouteFiles((WrittenFile(f"rows-{n}", n, 500, (), 0),)) for n in rows)
    return TaskResult((divided,), (), (WrittenFile("dead", 1, 50, (), 0),), route_files=files)


@pytest.mark.parametrize(
    ("task", "said"),
    [
        (group_task(2, 2), "rows in files of lake.refunds: expected 1, found 2"),
        (group_task(1, 1), "rows in files of lake.orders: expected 2, found 1"),
        (group_task(2, 0, routes=(RouteRows(2), RouteRows(0))), "orders-0: rows of all routes: expected 3, found 2"),
    ],
)
def test_the_rows_of_each_table_of_a_group_are_checked(task: TaskResult, said: str) -> None:
    with pytest.raises(CountMismatchError) as mismatch:
        gather(planned((0, 5, 9)), [task], group=GROUP)

    assert said in mismatch.value.what


def test_a_table_of_a_group_has_read_what_its_route_took() -> None:
    got = gather(planned((0, 5, 9)), [group_task(2, 1)], group=GROUP)

    (orders, refunds) = (got.of_route(place) for place in (0, 1))

    assert (got.counts, orders.counts, refunds.counts) == (Counts(4, 3, dead_letters=1), Counts(2, 2), Counts(1, 1))
    assert [each.path for each in (*orders.row_files, *refunds.row_files)] == ["rows-2", "rows-1"]
    assert (orders.dead_letter_files, refunds.ranges[0].dead_letters_by_reason) == ((), {})
    assert refunds.ranges[0].sums == OffsetSums(7, 49)
    assert (refunds.ranges[0].end, refunds.ranges[0].gaps) == (9, 0)


@pytest.mark.parametrize("stopped_by", ["bytes", "schema", "lookups"])
def test_a_range_that_was_stopped_may_end_early(stopped_by: str) -> None:
    got = gather(planned((0, 5, 9)), [task(result(0, 5, 7, stopped_by=stopped_by))])

    assert (got.counts, got.advanced) == (Counts(2, 2), True)


def test_a_batch_that_only_met_new_schemas_did_not_advance() -> None:
    stopped = result(0, 5, 5, stopped_by="schema", met_schema_ids=(8,))
    keys = result(1, 5, 5, stopped_by="schema", met_key_schema_ids=(9,))

    got = gather(planned((0, 5, 9), (1, 5, 9)), [task(stopped, keys)])

    assert (got.advanced, got.met_value_ids, got.met_key_ids) == (False, (8,), (9,))


def test_what_the_tasks_return_is_put_together() -> None:
    one = task(result(0, 5, 9), unknown_schema_ids=(3, 1), truncated_nanos=2, undeclared_fields=3)
    other = task(result(1, 0, 2), unknown_schema_ids=(1,), truncated_nanos=5, undeclared_fields=4)

    got = gather(planned((0, 5, 9), (1, 0, 2)), [one, other])

    assert (got.counts, got.unknown_schema_ids) == (Counts(6, 6), (1, 3))
    assert (got.truncated_nanos, got.undeclared_fields) == (7, 7)
    assert (len(got.row_files), len(got.dead_letter_files)) == (2, 2)


# --- the next state -------------------------------------------------------------------------------------------------


def after(plan: BatchPlan, *ranges: RangeResult) -> dict[int, PartitionProgress]:
    return dict(next_state(plan, gather(plan, [task(*ranges)]), writer="w2", planned_at=NOW).sources[0].partitions)


def test_counts_and_sums_grow_and_the_start_moves_on() -> None:
    before = progress(2, 5, counts=Counts(3, 3), sums=OffsetSums(9, 29), leader_epoch=1)
    plan = planned((0, 5, 9), state=state({0: before}))
    read = result(0, 5, 9, sums=OffsetSums(26, 174), leader_epoch=2)

    assert after(plan, read)[0] == PartitionProgress(2, 5, 9, Counts(7, 7), OffsetSums(35, 203), 2, 3)


def test_sums_wrap_around_at_one_machine_word() -> None:
    plan = planned((0, 5, 9), state=state({0: progress(0, 5, sums=OffsetSums(MODULUS - 1, MODULUS - 2))}))

    assert after(plan, result(0, 5, 9, sums=OffsetSums(3, 3)))[0].sums == OffsetSums(2, 1)


def test_a_batch_without_records_forgets_neither_epoch_nor_timestamp() -> None:
    plan = planned((0, 5, 9), state=state({0: progress(0, 5, leader_epoch=3)}))

    moved = after(plan, result(0, 5, 9, rows=0))[0]

    assert (moved.next, moved.leader_epoch) == (9, 3)


def test_partitions_that_were_not_read_stay_and_new_ones_begin_at_their_earliest_record() -> None:
    facts = topic({0: (0, 9), 1: (3, 3), 2: (4, 6)})
    plan = planned((0, 5, 9), facts=facts, state=state({0: progress(0, 5), 1: progress(1, 3, counts=Counts(2, 2))}))

    partitions = after(plan, result(0, 5, 9))

    assert partitions[1] == PartitionProgress(1, 3, 3, Counts(2, 2))
    assert partitions[2] == PartitionProgress.beginning_at(4)


def test_a_topic_that_the_spec_does_not_name_any_more_keeps_its_progress() -> None:
    returns = SourceProgress("returns", "id-2", 0, {4: PartitionProgress(1, 3, 8, Counts(5, 5), OffsetSums(7, 9))})
    before = state({0: progress(0, 5)})
    plan = planned((0, 5, 9), state=replace(before, sources=(returns, *before.sources)))

    found = next_state(plan, gather(plan, [task(result(0, 5, 9))]), writer="w2", planned_at=NOW).sources

    assert found[0] == replace(returns, partitions={4: replace(returns.partitions[4], start=8)})
    assert [source.topic for source in found] == ["returns", "orders"]


def test_the_state_names_its_writer_its_batch_and_every_schema_so_far() -> None:
    schemas = WriterSchemas({5: RegisteredSchema(5, "AVRO", "")}, {6: RegisteredSchema(6, "AVRO", "")})
    plan = replace(planned((0, 5, 9), state=state(schema_ids=(2,), skipped_by_reason={"a": 1})), schemas=schemas)
    skipped = result(0, 5, 9, counts=Counts(read=4, rows=2, skipped=2), skipped_by_reason={"tombstone": 2})

    now = next_state(plan, gather(plan, [task(skipped)]), writer="w2", planned_at=NOW)

    assert (now.epoch, now.writer, now.batch_id) == (4, "w2", "b4")
    assert (now.schema_ids, now.key_schema_ids) == ((2, 5), (6,))
    assert now.skipped_by_reason == {"a": 1, "tombstone": 2}


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        (PartitionFacts(0, 9), PartitionFacts(0, 9), NOW),
        (PartitionFacts(0, 9), PartitionFacts(0, 50), BEFORE),
        (PartitionFacts(0, 9), PartitionFacts(0, 9, held_back=1), BEFORE),
    ],
    ids=["both read to the end", "one behind", "an open transaction"],
)
def test_a_table_is_complete_through_the_plan_whose_offsets_are_all_read(
    first: PartitionFacts, second: PartitionFacts, expected: datetime
) -> None:
    before = state({0: progress(0, 5), 1: progress(0, 5)}, complete_through=BEFORE)
    plan = planned((0, 5, 9), (1, 5, 9), facts=topic({0: first, 1: second}), state=before)

    now = next_state(plan, gather(plan, [task(result(0, 5, 9), result(1, 5, 9))]), writer="w", planned_at=NOW)

    assert now.complete_through == expected
    assert [each.at for each in now.observations] == ([] if expected == NOW else [NOW])


def test_the_receipt_repeats_what_was_read_and_what_became_of_it() -> None:
    plan = planned((0, 5, 9), (1, 0, 4))
    dead = result(1, 0, 4, counts=Counts(read=3, rows=1, dead_letters=2), dead_letters_by_reason={"truncated": 2})
    got = gather(plan, [task(result(0, 5, 9)), task(dead)])

    receipt = receipt_of(plan, got, next_state(plan, got, writer="w", planned_at=NOW), seconds={"plan": 1.0})

    assert receipt.counts == Counts(read=7, rows=5, dead_letters=2)
    assert [(r.partition, r.start, r.end, r.gaps) for r in receipt.ranges] == [(0, 5, 9, 0), (1, 0, 4, 1)]
    assert (receipt.files, receipt.file_bytes, receipt.payload_bytes) == (2, 1_000, 20)
    assert receipt.dead_letters_by_reason == {"truncated": 2}
    assert receipt.seconds == {"plan": 1.0}


def test_a_receipt_lists_the_steps_that_took_time() -> None:
    plan = planned((0, 5, 9))
    read = gather(plan, [task(result(0, 5, 9))])
    seconds = {"recover": 0.004, "evolve": 0.005, "plan": 0.006, "ingest": 1.0}
    receipt = receipt_of(plan, read, next_state(plan, read, writer="w", planned_at=NOW), seconds=seconds)

    assert list(lines(receipt))[-1] == "  seconds evolve 0.01, plan 0.01, ingest 1.00"


def test_a_receipt_for_a_terminal_leaves_zeros_out_and_one_for_a_log_has_the_time() -> None:
    plan = planned((0, 5, 9))
    read = gather(plan, [task(result(0, 5, 9))])
    receipt = receipt_of(plan, read, next_state(plan, read, writer="w", planned_at=NOW), seconds={})
    receipt = replace(receipt, counts=Counts(read=1, dead_letters=1))

    shown, logged = list(lines(receipt)), list(logged_lines(receipt, at=NOW))

    assert shown[0].startswith("lake.orders epoch ")
    assert shown[1] == "  1 read = 1 dead letter"
    assert logged[0] == f"2026-03-01T12:00:00Z {shown[0]}"
    assert logged[1] == "  1 read = 0 rows + 0 deletes + 0 duplicates + 1 dead letter + 0 skipped"
    assert shown[2:] == logged[2:]


def test_the_formula_of_a_batch_without_records_is_whole() -> None:
    assert Counts().short_formula() == "0 read = 0 rows"


def test_a_receipt_lists_the_changes_of_the_schema() -> None:
    plan = planned((0, 5, 9))
    read = gather(plan, [task(result(0, 5, 9))])
    receipt = receipt_of(plan, read, next_state(plan, read, writer="w", planned_at=NOW), seconds={})

    told = list(lines(replace(receipt, schema_changes=("add column note: string", "rename a to b"))))

    assert [each for each in told if "schema: " in each] == [
        "  schema: add column note: string",
        "  schema: rename a to b",
    ]


# --- limits ---------------------------------------------------------------------------------------------------------


def got(*ranges: RangeResult, unknown: int = 0) -> Ingested:
    return Ingested(ranges, (), (), tuple(range(unknown)), 0)


def bad(count: int, *, read: int = 1_000, reason: str = "truncated") -> RangeResult:
    counts = Counts(read=read, rows=read - count, dead_letters=count)
    return result(0, 0, read, counts=counts, dead_letters_by_reason={reason: count})


@pytest.mark.parametrize(
    ("share", "at_least", "count", "pauses"),
    [
        (0.05, 100, 50, False),
        (0.05, 50, 50, False),
        (0.05, 50, 51, True),
        (0.05, 51, 51, True),
        (0.05, 52, 51, False),
        (0.0, 1, 1, True),
        (0.0, 0, 0, False),
        (1.0, 0, 1_000, False),
    ],
)
def test_a_batch_pauses_the_table_when_both_limits_are_exceeded(
    share: float, at_least: int, count: int, pauses: bool
) -> None:
    limited = replace(SPEC, bad_record_limit=BadRecordLimit(share, at_least))

    assert exceeds(limited, got(bad(count))) is pauses


def exceeds(limited: TableSpec, ingested: Ingested, accepted: dict[str, dict[int, int]] | None = None) -> bool:
    try:
        check_limits(limited, ingested, accepted=accepted or {})
    except BadRecordLimitError:
        return True
    return False


STRICT = replace(SPEC, bad_record_limit=BadRecordLimit(0.05, 1))


def test_skipped_records_count_as_bad_and_tombstones_do_not() -> None:
    skipped = result(0, 0, 10, counts=Counts(10, 5, skipped=5), skipped_by_reason={"truncated": 5})
    tombstones = result(0, 0, 10, counts=Counts(10, 5, skipped=5), skipped_by_reason={"tombstone": 5})

    assert exceeds(STRICT, got(skipped))
    assert not exceeds(STRICT, got(tombstones))
    assert not exceeds(STRICT, got(bad(500, reason="null_value")))


def test_the_limit_says_which_reasons_came_how_often() -> None:
    with pytest.raises(BadRecordLimitError) as exceeded:
        check_limits(STRICT, got(bad(60), bad(600, reason="not_framed")), accepted={})

    assert (
        "660 of the batch's 2,000 records could not become rows (not_framed 600, truncated 60)" in exceeded.value.what
    )
    assert "(5.0% and at least 1)" in exceeded.value.what


def test_a_hundred_ids_that_the_registry_does_not_have_ask_whether_it_is_the_right_one() -> None:
    with pytest.raises(BadRecordLimitError, match="names 100 schema ids that the registry does not have") as asked:
        check_limits(SPEC, got(bad(100, reason="unknown_schema_id"), unknown=100), accepted={})

    assert asked.value.hint.startswith("check that `schema_registry` in frazil.yaml is the right registry")
    assert not exceeds(SPEC, got(bad(0), unknown=99))
    assert not exceeds(replace(SPEC, bad_record_limit=OFF), got(bad(1_000), unknown=500))


@pytest.mark.parametrize(
    ("accepted", "pauses"), [({}, True), ({0: 999}, True), ({0: 1_000}, False), ({1: 9_999}, True)]
)
def test_what_resume_accepted_is_let_through_and_nothing_behind_it(accepted: dict[int, int], pauses: bool) -> None:
    assert exceeds(STRICT, got(bad(900)), {"orders": accepted}) is pauses


def test_what_came_since_the_pause_is_judged_without_what_resume_accepted() -> None:
    new = result(1, 0, 5, counts=Counts(read=5, rows=5))

    assert not exceeds(STRICT, got(bad(900), new), {"orders": {0: 1_000}})


def test_resume_accepts_exactly_what_the_pause_says_was_read() -> None:
    ends = through((result(0, 5, 9), result(1, 0, 3)))

    said = pause_by_run(because=BadRecordLimitError("because", hint=""), at=NOW, accept=ends)

    assert '"accept": {"orders": {"0": 9, "1": 3}}' in said
    assert accepted_through({"frazil.accepted-through": '{"orders": {"0": 9}}'}) == {"orders": {0: 9}}
    assert accepted_through({}) == {}
    assert "accept" not in pause_property(by="ops", why="w", at=NOW)
