"""The column of `order_by` is renamed by an alias of a writer's schema."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from changelogs import NAMES, UPSERT, Changelog
from ordered_changelogs import Partitions
from rebuilt_tables import rebuild, rewind
from whole_batches import drained, framed

from frazil.adapters.iceberg.lake import IcebergLake
from frazil.materialize.pause.excluding import change_excluded
from frazil.materialize.pause.pausing import PAUSED_PROPERTY
from frazil.materialize.rebuild.rewind import ToOffsets
from frazil.model.errors import IncompatibleSchemaError
from frazil.model.settings import CatalogSettings
from frazil.model.spec import OnIncompatibleSchema
from frazil.proof.verification import FindingKind
from tests.fakes.clients_in_memory import a_field, record

MICROSECONDS = {"type": "long", "logicalType": "timestamp-micros"}
FIRST = record(a_field("ts", MICROSECONDS), a_field("n", "long"), name="V")
RENAMED = record(a_field("updated", MICROSECONDS, "ts"), a_field("n", "long"), name="V")
AS_TEXT = record(a_field("updated", "string", "ts"), a_field("n", "long"), name="V")

AS_DATE = record(a_field("updated", {"type": "int", "logicalType": "date"}, "ts"), a_field("n", "long"), name="V")


@dataclass
class RenamedOrder(Changelog):
    """A table with rows of the first schema."""

    world: Partitions

    def write(self, schema: str, *values: dict[str, Any]) -> None:
        schema_id = self.world.registry.register("orders-value", schema).id
        self.world.records[0] += [(b"k", framed(schema_id, schema, value), 1_000) for value in values]

    def found(self) -> list[tuple[Any, ...]]:
        names = ["n", *(["valid_to"] if self.spec.keeps_history else [])]
        read = self.world.lake.read(self.view, columns=["updated", *names], equal={})
        rows = [row for batch in read for row in batch.to_pylist()]
        return sorted((row["updated"].microsecond, row["n"]) for row in rows if row.get("valid_to") is None)

    def value(self, name: str, at: int, n: int) -> dict[str, Any]:
        """Return a value whose column of the order has this name."""
        return {name: at, "n": n}

    def check_both_names(self, first: str, renamed: str, *, order_by: str, present: str) -> None:
        """Check that old and new writers are ordered, in batches, by a rewind and by a rebuild."""
        self.write(renamed, self.value("updated", 30, 2), self.value("updated", 5, 3))
        self.write(first, self.value("ts", 20, 4))
        drained(self.world, self.spec)
        assert self.found() == [(30, 2)]
        self.spec = replace(self.spec, order_by=order_by)
        self.write(first, self.value("ts", 29, 5))
        self.write(renamed, self.value("updated", 31, 6))

        drained(self.world, self.spec)

        assert self.found() == [(31, 6)]
        assert (self.verify().findings, self.against_kafka().findings) == ((), ())
        rewind(self, ToOffsets({"orders": {0: 1}})).perform()
        assert self.found() == [(31, 6)]
        self.spec = replace(self.spec, order_by=present)
        rebuild(self).perform()
        assert self.found() == [(31, 6)]
        assert (self.verify().findings, self.against_kafka().findings) == ((), ())


@pytest.fixture(params=["upsert", "history"])
def log(tmp_path: Path, request: pytest.FixtureRequest) -> RenamedOrder:
    world = Partitions(IcebergLake(CatalogSettings("jdbc", str(tmp_path))))
    spec = replace(
        UPSERT, table=f"t{next(NAMES)}", value="avro", order_by="ts", on_tombstone="skip", write=request.param
    )
    made = RenamedOrder(world, spec)
    made.write(FIRST, {"ts": 10, "n": 1})
    drained(world, spec)
    return made


@pytest.mark.parametrize("order_by", ["ts", "updated"])
def test_the_column_orders_records_by_both_names(log: RenamedOrder, order_by: str) -> None:
    log.check_both_names(FIRST, RENAMED, order_by=order_by, present="updated")


AGAIN = record(a_field("changed", MICROSECONDS, "updated"), a_field("n", "long"), name="V")


@pytest.mark.parametrize("met", [True, False], ids=["the table has both renames", "the table has one rename"])
def test_a_rebuild_follows_two_renames_of_which_the_newest_schema_says_one(log: RenamedOrder, met: bool) -> None:
    log.write(RENAMED, {"updated": 30, "n": 2})
    drained(log.world, log.spec)
    log.write(AGAIN, {"changed": 40, "n": 3})
    if met:
        drained(log.world, log.spec)
    log.spec = replace(log.spec, order_by="changed")

    rebuild(log).perform()

    assert [each.name for each in log.view.columns][:2] == ["changed", "n"]
    drained(log.world, log.spec)
    rows = [row for part in log.world.lake.read(log.view, columns=["*"], equal={}) for row in part.to_pylist()]
    (row,) = [row for row in rows if row.get("valid_to") is None]
    assert (row["changed"].microsecond, row["n"]) == (40, 3)
    assert len(rows) == (3 if log.spec.keeps_history else 1)
    assert (log.verify().findings, log.against_kafka().findings) == ((), ())


WITHOUT_ALIAS = record(a_field("updated", MICROSECONDS), a_field("n", "long"), name="V")
ALIAS_AGAIN = record(a_field("updated", MICROSECONDS, "ts"), a_field("n", "long", "m"), name="V")


@pytest.mark.parametrize(
    "written",
    [(), (RENAMED,), (WITHOUT_ALIAS,), (RENAMED, WITHOUT_ALIAS)],
    ids=["none", "the first", "the second", "both"],
)
def test_the_hint_about_a_rename_in_a_version_that_was_not_met_is_a_way_out(
    log: RenamedOrder, written: tuple[str, ...]
) -> None:
    for schema in (RENAMED, WITHOUT_ALIAS):
        log.world.registry.register("orders-value", schema)
    for number, schema in enumerate(written, start=2):
        log.write(schema, {"updated": 10 + number, "n": number})
    log.world.registry.register("orders-value", WITHOUT_ALIAS)
    with pytest.raises(IncompatibleSchemaError, match="ts: is missing, and orders") as refused:
        drained(log.world, log.spec)
    assert "(if ts has a new name, that field needs the former one as an alias" in (refused.value.hint or "")

    log.write(ALIAS_AGAIN, {"updated": 40, "n": 9})
    log.world.lake.set_properties(log.spec.identifier, put={}, remove=[PAUSED_PROPERTY])
    drained(log.world, log.spec)

    assert log.found() == [(40, 9)]
    assert (log.verify().findings, log.against_kafka().findings) == ((), ())


def test_a_field_inside_another_is_not_the_column(log: RenamedOrder) -> None:
    inside = json.loads(record(a_field("changed", "long", "ts"), name="Meta"))
    schema = record(a_field("ts", MICROSECONDS), a_field("n", "long"), a_field("meta", inside), name="V")
    log.write(schema, {"ts": 5, "n": 2, "meta": {"changed": 90}}, {"ts": 20, "n": 3, "meta": {"changed": 1}})
    drained(log.world, log.spec)
    log.write(schema, {"ts": 21, "n": 4, "meta": {"changed": 1}})

    drained(log.world, log.spec)

    (row,) = [
        row
        for part in log.world.lake.read(log.view, columns=["*"], equal={})
        for row in part.to_pylist()
        if row.get("valid_to") is None
    ]
    assert (row["ts"].microsecond, row["n"]) == (21, 4)


def test_a_field_beside_a_column_that_has_its_name_is_not_the_column(log: RenamedOrder) -> None:
    """The schema leaves the column out: its records have no order."""
    beside = record(a_field("ts", MICROSECONDS), a_field("n", "long"), a_field("b", ["null", MICROSECONDS]), name="V")
    log.write(beside, {"ts": 20, "n": 3, "b": None})
    drained(log.world, log.spec)
    without = record(a_field("b", MICROSECONDS, "ts"), a_field("n", "long"), name="V")
    log.write(without, {"b": 90, "n": 2})

    with pytest.raises(IncompatibleSchemaError, match="ts: is missing, and orders the records of a key"):
        drained(log.world, log.spec)


@pytest.mark.parametrize("decides", [{"identity": ("n",)}, {"partition_by": ("n",)}], ids=["identity", "partition_by"])
@pytest.mark.parametrize("met", [True, False], ids=["renamed before", "renamed at once"])
@pytest.mark.parametrize("setting", ["dead_letter", "new_column"])
def test_another_type_of_what_decides_pauses_the_table_whatever_its_name(
    log: RenamedOrder, decides: dict[str, tuple[str, ...]], met: bool, setting: OnIncompatibleSchema
) -> None:
    """The setting would make dead letters, or a second column, of which no row has an identity or a partition."""
    log.spec = replace(log.spec, table=f"t{next(NAMES)}", write="upsert", on_incompatible_schema=setting, **decides)
    drained(log.world, log.spec)
    if met:
        log.write(record(a_field("ts", MICROSECONDS), a_field("m", "long", "n"), name="V"), {"ts": 20, "m": 2})
        drained(log.world, log.spec)
    aliases = () if met else ("n",)
    log.write(record(a_field("ts", MICROSECONDS), a_field("m", "string", *aliases), name="V"), {"ts": 30, "m": "3"})

    with pytest.raises(IncompatibleSchemaError) as refused:
        drained(log.world, log.spec)

    assert refused.value.always_pauses


@pytest.mark.parametrize("setting", ["dead_letter", "new_column"])
@pytest.mark.parametrize(("schema", "value"), [(AS_TEXT, "30"), (AS_DATE, 30)], ids=["text", "date"])
def test_another_type_pauses_the_table_whatever_its_name(
    log: RenamedOrder, setting: OnIncompatibleSchema, schema: str, value: object
) -> None:
    log.spec = replace(log.spec, on_incompatible_schema=setting)
    log.write(schema, {"updated": value, "n": 2})

    with pytest.raises(IncompatibleSchemaError) as refused:
        drained(log.world, log.spec)

    assert refused.value.always_pauses
    assert [each.name for each in log.view.columns][:2] == ["ts", "n"]


def test_a_table_is_proven_that_an_operator_let_go_on_without_such_a_schema(log: RenamedOrder) -> None:
    log.write(record(a_field("ts", "string"), a_field("n", "long"), name="V"), {"ts": "30", "n": 2})
    log.write(FIRST, {"ts": 40, "n": 3})
    with pytest.raises(IncompatibleSchemaError):
        drained(log.world, log.spec)
    change_excluded(log.world.lake, log.world.registry, log.spec, exclude=[2], include=[])
    log.world.lake.set_properties(log.spec.identifier, put={}, remove=[PAUSED_PROPERTY])
    drained(log.world, log.spec)

    verification = log.against_kafka()

    assert (verification.findings, verification.counts.dead_letters) == ((), 1)


@pytest.mark.parametrize("change", ["rename", "drop"])
def test_a_column_that_another_tool_took_away_is_found_by_a_comparison_with_kafka(
    log: RenamedOrder, change: str
) -> None:
    with log.world.lake.catalog.load_table(log.spec.identifier).update_schema(
        allow_incompatible_changes=True
    ) as update:
        update.rename_column("ts", "theirs") if change == "rename" else update.delete_column("ts")

    finding, *_ = log.against_kafka().findings

    assert finding.kind is (FindingKind.UNPROVABLE if log.spec.keeps_history else FindingKind.NO_COLUMN)
    assert finding.what.startswith("the table has no column ts")
