"""The proof of a group of tables: what it proves, and each damage that it names."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from grouped_tables import DEAD_LETTERS, GroupWorld, specs
from policed_tables import HASH, HASH_KEY, LETTER_KEY, NO_KEY, truncate
from whole_batches import framed

from frazil.materialize.letter_retention import delete_old_letters
from frazil.model.plan import OffsetRange
from frazil.model.policed import policed
from frazil.model.policies import Policies
from frazil.model.progress import GroupPartition, RouteLine, TableState
from frazil.model.routes import HeaderCondition, Route
from frazil.model.spec import Maintain, TableSpec
from frazil.model.summary import receipt_in, store
from frazil.proof.verification import FindingKind, Verification
from frazil.records import Headers, Records
from frazil.verify.against_kafka import KafkaSide
from frazil.verify.group import verify_together
from tests.fakes.clients_in_memory import a_field, record

SENT = ("order", "refund", "order", "other", "refund", "order", "order", "other")
"""In two batches: the first has six records."""


@pytest.fixture
def world(tmp_path: Path) -> GroupWorld:
    made = GroupWorld.at(tmp_path)
    made.send(*SENT)
    return made


@pytest.fixture
def published(world: GroupWorld) -> GroupWorld:
    world.catch_up()
    return world


def verified(world: GroupWorld, *tables: TableSpec, kafka: bool = True) -> tuple[Verification, ...]:
    side = KafkaSide(world.topics, cast(Any, world), world.registry) if kafka else None
    return verify_together(world.lake, tables or specs(), kafka=side)


def findings(results: tuple[Verification, ...]) -> list[tuple[str, FindingKind, str]]:
    return [(each.table, found.kind, str(found)) for each in results for found in each.findings]


def kinds(world: GroupWorld, *, kafka: bool = False) -> dict[str, list[FindingKind]]:
    """The kinds of the findings by table."""
    results = verified(world, kafka=kafka)
    return {each.table: [found.kind for found in each.findings] for each in results if each.findings}


def notes(results: tuple[Verification, ...]) -> list[str]:
    return [note for each in results for note in each.notes]


def rewrite(world: GroupWorld, table: str, change: Callable[[pa.Table], pa.Table]) -> None:
    """Change rows inside a data file, without any commit; its new size stays a finding of its own."""
    loaded = world.lake.catalog.load_table(table)
    for task in loaded.scan().plan_files():
        path = Path(task.file.file_path.removeprefix("file://"))
        pq.write_table(change(pq.read_table(path)), path)


def at_offset(offset: int, column: str = "kafka_offset") -> Callable[[pa.Table], pa.Table]:
    return lambda rows: rows.filter(pc.equal(rows[column], offset))


def renumbered(rows: pa.Table, was: int, now: int) -> pa.Table:
    """Give the row of one offset another one."""
    place = rows.column_names.index("kafka_offset")
    moved = pc.if_else(pc.equal(rows["kafka_offset"], was), now, rows["kafka_offset"])
    return rows.set_column(place, rows.schema.field(place), moved)


def with_state(world: GroupWorld, table: str, change: Callable[[TableState], TableState]) -> None:
    """Write another state to a table, as a snapshot without rows."""
    at = world.stands(table)
    stored = store(change(at.state), receipt_in(at.carrier))
    world.lake.begin(at.view, stored.summary, document=stored.document, tag="frazil_checkpoint")


def test_a_group_is_proven_with_each_of_its_tables(published: GroupWorld) -> None:
    results = verified(published)

    assert findings(results) == []
    assert [each.table for each in results] == ["lake.orders", "lake.refunds", "lake.events"]
    of_group = {check.name: check.says for check in results[-1].checks}
    assert of_group["group"].startswith("8 read = 6 rows + 0 deletes + 0 duplicates + 2 dead letters + 0 skipped")
    assert "taken by orders 4, refunds 2; each table agrees at epoch 2" in of_group["group"]
    assert of_group["dead letters"].startswith("2 dead letters: the counted number in each partition")
    assert of_group["kafka"].startswith("8 records in Kafka: 6 are rows, equal in every column; 2 are dead letters")
    assert results[-1].counts.dead_letters == 2
    assert notes(results) == []


def test_dead_letters_of_a_group_that_were_deleted_because_of_their_age_stay_counted(published: GroupWorld) -> None:
    ledger = replace(specs()[0], maintain=Maintain(512 << 20, keep_dead_letters=timedelta(days=10)))

    deleted = delete_old_letters(published.lake, ledger, writer="w", now=datetime.now(UTC) + timedelta(days=11))

    results = verified(published)
    of_group = {check.name: check.says for check in results[-1].checks}
    assert (deleted, findings(results)) == (2, [])
    assert "deleted 2 of them" in of_group["dead letters"]


def test_a_group_that_was_not_made_has_nothing_to_verify(world: GroupWorld) -> None:
    assert [each.checks for each in verified(world)] == [(), ()]


def test_a_group_without_a_batch_is_clean(world: GroupWorld) -> None:
    world.driver().create()

    results = verified(world)

    assert findings(results) == []
    assert results[-1].epoch == 0


def append(world: GroupWorld, table: str, source: str, offset: int) -> None:
    rows = world.lake.catalog.load_table(source).scan().to_arrow()
    target = world.lake.catalog.load_table(table)
    chosen = at_offset(offset)(rows)
    missing = [name for name in target.schema().as_arrow().names if name not in chosen.column_names]
    for name in missing:
        chosen = chosen.append_column(name, pa.nulls(1, target.schema().as_arrow().field(name).type))
    target.append(chosen.select(target.schema().as_arrow().names))


def test_a_row_in_two_tables_is_named(published: GroupWorld) -> None:
    append(published, "lake.refunds", "lake.orders", 2)

    results = verified(published)

    both = "events-0: in both orders and refunds: offset 2"
    assert ("lake.events", FindingKind.ROW_IN_TWO_TABLES, both) in findings(results)
    assert any(
        kind is FindingKind.WRONG_TABLE and "events-0@2: a row in lake.refunds, but lake.orders takes" in text
        for _, kind, text in findings(results)
    )


def test_a_row_that_one_table_lost_is_named_with_its_offset(published: GroupWorld) -> None:
    rewrite(published, "lake.refunds", lambda rows: rows.filter(pc.not_equal(rows["kafka_offset"], 4)))

    found = findings(verified(published))

    assert any(
        table == "lake.refunds" and kind is FindingKind.LOST_ROWS and "missing: 1 of 2 rows: offset 4" in text
        for table, kind, text in found
    )


def test_a_record_in_the_wrong_table_is_named(published: GroupWorld) -> None:
    rewrite(published, "lake.orders", lambda rows: renumbered(rows, 0, 1))

    found = findings(verified(published))

    assert any(kind is FindingKind.ROW_IN_TWO_TABLES and "offset 1" in text for _, kind, text in found)
    assert ("lake.events", FindingKind.WRONG_TABLE) in {(table, kind) for table, kind, _ in found}
    assert any("events-0@1: a row in lake.orders, but lake.refunds takes the record" in text for _, _, text in found)


def test_a_dead_letter_that_was_lost_is_counted_once_for_the_group(published: GroupWorld) -> None:
    published.lake.catalog.load_table(DEAD_LETTERS).delete("offset = 3")

    results = verified(published)

    assert [(table, kind) for table, kind, _ in findings(results)] == [
        ("lake.events", FindingKind.DEAD_LETTER_COUNT),
        ("lake.events", FindingKind.MISSING_RECORD),
    ]


def test_a_row_that_is_a_dead_letter_too_is_named_with_its_table(published: GroupWorld) -> None:
    rewrite(published, "lake.refunds", lambda rows: renumbered(rows, 1, 3))

    found = findings(verified(published, kafka=False))

    both = "events-0: in both lake.refunds and the dead letters: offset 3"
    assert ("lake.events", FindingKind.ROW_AND_DEAD_LETTER, both) in found


def _line(state: TableState, table: str, count: int) -> TableState:
    assert state.group is not None
    lines = tuple(
        RouteLine(line.table, {"events": {0: count}}) if line.table == table else line for line in state.group.lines
    )
    return replace(state, group=replace(state.group, lines=lines))


def test_an_altered_line_of_the_ledger_is_named(published: GroupWorld) -> None:
    with_state(published, "orders", lambda state: _line(state, "refunds", 3))

    found = findings(verified(published, kafka=False))

    assert found == [
        ("lake.events", FindingKind.UNBALANCED, "events-0: 6 rows of the group, but its tables took 7 records"),
        ("lake.events", FindingKind.LEDGER_LINE, "events-0: 2 records taken by refunds, the ledger says 3"),
    ]


def test_two_altered_lines_that_add_up_are_named(published: GroupWorld) -> None:
    with_state(published, "orders", lambda state: _line(_line(state, "refunds", 3), "orders", 3))

    assert kinds(published) == {"lake.events": [FindingKind.LEDGER_LINE, FindingKind.LEDGER_LINE]}


def test_a_group_whose_counts_do_not_add_up_is_named(published: GroupWorld) -> None:
    def change(state: TableState) -> TableState:
        assert state.group is not None
        one = state.group.partitions["events"][0]
        counts = replace(one.counts, dead_letters=one.counts.dead_letters - 1)
        return replace(state, group=replace(state.group, partitions={"events": {0: GroupPartition(counts)}}))

    with_state(published, "orders", change)

    assert kinds(published) == {"lake.events": [FindingKind.UNBALANCED, FindingKind.DEAD_LETTER_COUNT]}


def test_a_ledger_whose_state_lost_its_group_is_named(published: GroupWorld) -> None:
    with_state(published, "orders", lambda state: replace(state, group=None))

    assert FindingKind.NO_STATE in kinds(published)["lake.events"]


class Killed(BaseException):
    """The process ends here."""


def killed_after_the_ledger(world: GroupWorld) -> None:
    """Publish a batch in the ledger alone."""
    real, ledger = world.lake.publish, list[int]()

    def publish(*args: Any, **more: Any) -> None:
        if ledger:
            raise Killed
        ledger.append(1)
        real(*args, **more)

    lake = cast(Any, _Replaced(world.lake, publish))
    driver = world.driver(lake=lake)
    with pytest.raises(Killed):
        driver.batch()


class _Replaced:
    def __init__(self, lake: Any, publish: Callable[..., None]) -> None:
        self._lake, self.publish = lake, publish

    def __getattr__(self, name: str) -> Any:
        return getattr(self._lake, name)


def test_a_table_one_batch_behind_is_counted_from_its_staged_branch(published: GroupWorld) -> None:
    published.send("refund", "order", "other")
    killed_after_the_ledger(published)
    assert (published.stands("orders").state.epoch, published.stands("refunds").state.epoch) == (3, 2)

    results = verified(published)

    assert findings(results) == []
    assert [note.partition(" on the branch")[0] for note in notes(results)] == [
        "the last batch of the group is staged",
        "the last batch's dead letters are staged (snapshot "
        f"{_staged_letters(published)}); the next run makes them visible",
    ]


def _staged_letters(world: GroupWorld) -> int:
    view = world.lake.load(DEAD_LETTERS)
    assert view is not None
    (head,) = (at for name, at in view.branches.items() if name.startswith("frazil_prepared") or "dead" in name)
    return head


def test_a_table_behind_whose_branch_was_dropped_is_a_finding(published: GroupWorld) -> None:
    published.send("refund", "order")
    killed_after_the_ledger(published)
    view = published.lake.load("lake.refunds")
    assert view is not None
    published.lake.drop_branches(view, [name for name in view.branches if name != "main"])

    assert kinds(published)["lake.refunds"] == [FindingKind.GROUP_APART]


def test_a_table_ahead_is_read_at_the_epoch_of_the_ledger(
    published: GroupWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A batch is published between loading the ledger and loading the other tables."""
    published.send("refund", "order")
    load, waiting = type(published.lake).load, [1]

    def load_late(lake: Any, identifier: str) -> Any:
        view = load(lake, identifier)
        if identifier == DEAD_LETTERS and waiting:
            waiting.clear()
            published.catch_up()
        return view

    monkeypatch.setattr(type(published.lake), "load", load_late)
    results = verified(published, kafka=False)

    assert [each.epoch for each in results] == [2, 2, 2]
    assert findings(results) == []
    assert published.stands("refunds").state.epoch == 3


def test_a_table_that_joins_while_the_tables_are_loaded_takes_no_part_yet(
    published: GroupWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The batch with the new route is published after the ledger was loaded."""
    more = specs(Route("orders", "shop.Order"), Route("refunds", "shop.Refund"), Route("others", "shop.Other"))
    published.send("other", "order")
    load, waiting = type(published.lake).load, [1]

    def load_late(lake: Any, identifier: str) -> Any:
        view = load(lake, identifier)
        if identifier == DEAD_LETTERS and waiting:
            waiting.clear()
            published.catch_up(published.driver(*more))
        return view

    monkeypatch.setattr(type(published.lake), "load", load_late)

    assert findings(verified(published, *more, kafka=False)) == []


@pytest.mark.parametrize("table", ["orders", "refunds"])
def test_a_table_that_was_rolled_back_alone_is_a_finding(published: GroupWorld, table: str) -> None:
    view = published.stands(table).view
    loaded = published.lake.catalog.load_table(f"lake.{table}")
    before = next(s for s in view.ancestry(view.head) if s.id != view.head)
    loaded.manage_snapshots().set_current_snapshot(snapshot_id=before.id).commit()

    assert kinds(published)["lake.refunds"] == [FindingKind.GROUP_APART]


def test_records_before_new_conditions_stay_where_they_are(published: GroupWorld) -> None:
    changed = specs(Route("orders", "shop.Other"), Route("refunds", "shop.Refund"))
    published.send("order", "other", "refund")
    published.catch_up(published.driver(*changed))

    results = verified(published, *changed)

    assert findings(results) == []
    assert published.offsets("lake.orders") == [0, 2, 5, 6, 9]


class WithHeaders(GroupWorld):
    """Every third record has the header `type: refund`."""

    def _chunks(self, wanted: OffsetRange) -> Iterator[Records]:
        for chunk in super()._chunks(wanted):
            given = [[("type", b"refund")] if n % 3 == 0 else None for n in chunk.offsets.to_pylist()]
            yield replace(chunk, headers=Headers.of(given))


def test_records_are_routed_again_by_their_headers(tmp_path: Path) -> None:
    by_header = Route("refunds", headers=(HeaderCondition("type", "refund"),))
    tables = specs(by_header, Route("orders", "shop.Order"))
    base = GroupWorld.at(tmp_path)
    world = WithHeaders(base.lake, base.registry, names=base.names)
    world.send("order", "order", "other", "order", "order", "refund", "other")
    world.catch_up(world.driver(*tables))

    assert (world.offsets("lake.refunds"), world.offsets("lake.orders")) == ([0, 3, 6], [1, 4])
    assert findings(verified(world, *tables)) == []

    append(world, "lake.orders", "lake.refunds", 3)
    wrong = "events-0@3: a row in lake.orders, but lake.refunds takes the record"
    assert ("lake.events", FindingKind.WRONG_TABLE, wrong) in findings(verified(world, *tables))


def test_a_route_is_added_for_a_schema_that_another_table_has(tmp_path: Path) -> None:
    routes = (Route("refunds", headers=(HeaderCondition("type", "refund"),)), Route("orders", "shop.Order"))
    base = GroupWorld.at(tmp_path)
    world = WithHeaders(base.lake, base.registry, names=base.names)
    world.send("other", "order", "other")
    world.catch_up(world.driver(*specs(*routes)))
    world.send("order", "other", "order")
    more = specs(*routes, Route("others", "shop.Other"))

    world.catch_up(world.driver(*more))

    assert [world.offsets(f"lake.{table}") for table in ("refunds", "orders", "others")] == [[0, 3], [1, 5], [4]]
    assert findings(verified(world, *more)) == []


def test_a_dead_letter_that_a_route_takes_is_named(published: GroupWorld) -> None:
    table = published.lake.catalog.load_table(DEAD_LETTERS)
    letters = table.scan().to_arrow().to_pylist()
    changed = [{**each, "value": published.values[0]} if each["offset"] == 3 else each for each in letters]
    published.values[3] = published.values[0]
    table.overwrite(pa.Table.from_pylist(changed, table.scan().to_arrow().schema))

    found = findings(verified(published))

    assert any("events-0@3: dead letter, reason: no_route, but a route takes the record" in text for *_, text in found)


def test_a_group_that_masks_columns_is_proven_and_no_finding_quotes_a_value(world: GroupWorld) -> None:
    orders, refunds = specs()
    assert orders.group is not None
    group = replace(orders.group, masked=True)
    policies = Policies((("why", HASH),), hash_key=HASH_KEY.id)
    refunds = policed(replace(refunds, metadata=NO_KEY), policies, hash_key=HASH_KEY, dead_letter_key=LETTER_KEY)
    tables = [replace(each, group=group, dead_letter_key=LETTER_KEY) for each in (orders, refunds)]
    world.catch_up(world.driver(*tables))
    assert findings(verified(world, *tables)) == []

    changed = world.values[0][:-1] + b"\x54"
    world.values[0] = changed
    (finding,) = verified(world, *tables)[-1].findings

    assert str(finding) == "events-0@0: column n: one value in lake.orders, one value in Kafka"


def test_a_mask_of_one_table_refuses_no_schema_of_another_one(world: GroupWorld) -> None:
    """The text `why` of refunds is cut; orders have a number of that name, which could not be."""
    order = record(a_field("n", "int"), a_field("why", "int"), name="shop.Order")
    order_id = int(str(world.registry.register("events-value", order).id))
    world.values[:] = [world.values[1], framed(order_id, order, {"n": 1, "why": 5})]
    refunds, orders = specs(Route("refunds", "shop.Refund"), Route("orders", "shop.Order"))
    refunds = policed(
        replace(refunds, metadata=NO_KEY),
        Policies((("why", truncate(2)),)),
        hash_key=HASH_KEY,
        dead_letter_key=LETTER_KEY,
    )
    assert orders.group is not None
    group = replace(orders.group, masked=True)
    tables = [replace(each, group=group, dead_letter_key=LETTER_KEY) for each in (refunds, orders)]
    world.catch_up(world.driver(*tables))

    assert (world.offsets("lake.refunds"), world.offsets("lake.orders")) == ([0], [1])
    assert findings(verified(world, *tables)) == []


def test_a_table_of_a_removed_route_is_not_verified_and_noted(published: GroupWorld) -> None:
    fewer = specs(Route("orders", "shop.Order"))
    published.send("order")
    published.catch_up(published.driver(*fewer))

    results = verified(published, *fewer)

    assert findings(results) == []
    assert any("refunds took 2 records, and its route was removed: not verified" in note for note in notes(results))
    assert any("the 2 in tables that are not compared explain the number" in note for note in notes(results))


def test_a_table_without_a_batch_of_the_group_is_noted(published: GroupWorld) -> None:
    more = specs(Route("orders", "shop.Order"), Route("refunds", "shop.Refund"), Route("others", "shop.Other"))
    published.driver(*more).create()

    results = verified(published, *more)

    assert findings(results) == []
    assert notes(results) == ["others has no batch of the group yet, or none since its route was added again"]
