"""`order_by` names a column inside a struct of the value, or a field of the key."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from changelogs import NAMES, UPSERT, Changelog
from ordered_changelogs import Partitions
from rebuilt_tables import rebuild
from test_renamed_order import MICROSECONDS, RenamedOrder
from whole_batches import drained, framed

from frazil.adapters.iceberg.lake import IcebergLake
from frazil.model.errors import IncompatibleSchemaError, SpecError
from frazil.model.settings import CatalogSettings
from frazil.model.spec import OnIncompatibleSchema
from frazil.proof.verification import FindingKind
from tests.fakes.clients_in_memory import a_field, record


def inside(field: str, name: str = "at") -> str:
    """Return a schema whose struct has this field."""
    return record(a_field(name, json.loads(record(field, name="M"))), a_field("n", "long"), name="V")


FIRST = inside(a_field("ts", MICROSECONDS))
RENAMED = inside(a_field("updated", MICROSECONDS, "ts"))
AS_TEXT = inside(a_field("updated", "string", "ts"))


class NestedOrder(RenamedOrder):
    def found(self) -> list[tuple[int, int]]:
        rows = [row for batch in self.world.lake.read(self.view, columns=["*"], equal={}) for row in batch.to_pylist()]
        live = [row for row in rows if row.get("valid_to") is None]
        return sorted((next(iter(row["at"].values())).microsecond, row["n"]) for row in live)

    def value(self, name: str, at: int, n: int) -> dict[str, Any]:
        return {"at": {name: at}, "n": n}


@pytest.fixture(params=["upsert", "history"])
def log(tmp_path: Path, request: pytest.FixtureRequest) -> NestedOrder:
    world = Partitions(IcebergLake(CatalogSettings("jdbc", str(tmp_path))))
    changes = {"order_by": "at.ts", "on_tombstone": "skip", "write": request.param}
    made = NestedOrder(world, replace(UPSERT, table=f"t{next(NAMES)}", value="avro", **changes))
    made.write(FIRST, {"at": {"ts": 10}, "n": 1})
    drained(world, made.spec)
    return made


@pytest.mark.parametrize("order_by", ["at.ts", "at.updated"])
def test_a_column_in_a_struct_orders_records_by_both_names(log: NestedOrder, order_by: str) -> None:
    log.check_both_names(FIRST, RENAMED, order_by=order_by, present="at.updated")


@pytest.mark.parametrize("setting", ["dead_letter", "new_column"])
def test_another_type_in_the_struct_pauses_the_table(log: NestedOrder, setting: OnIncompatibleSchema) -> None:
    log.spec = replace(log.spec, on_incompatible_schema=setting)
    log.write(AS_TEXT, {"at": {"updated": "30"}, "n": 2})

    with pytest.raises(IncompatibleSchemaError) as refused:
        drained(log.world, log.spec)

    assert refused.value.always_pauses


@pytest.mark.parametrize("setting", ["pause", "dead_letter", "new_column"])
@pytest.mark.parametrize(
    "schema",
    [inside(a_field("other", "long")), record(a_field("at", "string"), a_field("n", "long"), name="V")],
    ids=["another field", "no struct"],
)
def test_a_schema_without_the_column_pauses_the_table(
    log: NestedOrder, setting: OnIncompatibleSchema, schema: str
) -> None:
    log.spec = replace(log.spec, on_incompatible_schema=setting)
    log.write(schema, {"at": {"other": 1} if "other" in schema else "x", "n": 2})

    with pytest.raises(IncompatibleSchemaError, match=r"at\.ts: is missing, and orders") as refused:
        drained(log.world, log.spec)

    assert refused.value.always_pauses


def test_a_column_in_a_struct_that_another_tool_took_away_is_found(log: NestedOrder) -> None:
    with log.world.lake.catalog.load_table(log.spec.identifier).update_schema(
        allow_incompatible_changes=True
    ) as update:
        update.delete_column("at.ts")

    finding, *_ = log.against_kafka().findings

    assert finding.kind is (FindingKind.UNPROVABLE if log.spec.keeps_history else FindingKind.NO_COLUMN)
    assert finding.what.startswith("the table has no column at.ts")


@pytest.mark.parametrize(
    ("order_by", "what"),
    [
        ("at.t", "order_by: at.t: names a field that at does not have; its fields are ts\n\nhint: did you mean at.ts"),
        ("n.ts", "order_by: n.ts: names what is inside n, which is long\n\nhint: fix `order_by`"),
        ("l[].ts", "order_by: l\\[\\].ts: names what is inside l, which is list<struct<ts: timestamptz>>"),
        ("l.ts", "order_by: l.ts: names what is inside l, which is list<struct<ts: timestamptz>>"),
        ("was.before", "order_by: was.before: is a former name of at.ts, .*\n\nhint: did you mean at.ts"),
        ("at", "order_by: at: is struct<ts: timestamptz>, and records are ordered by whole numbers, dates and"),
    ],
)
def test_a_path_that_orders_nothing_is_refused(tmp_path: Path, order_by: str, what: str) -> None:
    world = Partitions(IcebergLake(CatalogSettings("jdbc", str(tmp_path))))
    ts = a_field("ts", MICROSECONDS, "before")
    at, item = (json.loads(record(ts, name=name)) for name in ("M", "I"))
    items = {"type": "array", "items": item}
    fields = a_field("at", at, "was"), a_field("n", "long"), a_field("l", items)
    world.registry.register("orders-value", record(*fields, name="V"))
    spec = replace(UPSERT, table=f"t{next(NAMES)}", value="avro", order_by=order_by, on_tombstone="skip")

    with pytest.raises(SpecError, match=what):
        drained(world, spec)


ID, VERSION = a_field("id", "string"), a_field("version", "int")
OLD_KEY = record(ID, VERSION, name="K")
NEW_KEY = record(ID, a_field("revision", "long", "version"), name="K")
OTHER_KEY = record(ID, a_field("other", ["null", "int"]), name="K")


def keyed(folder: Path) -> Changelog:
    """Return the table of a key whose first version is 5."""
    log = Changelog.at(folder, key="avro", identity=("kafka_key.id",), order_by="kafka_key.version")
    send(log, OLD_KEY, 1, version=5)
    log.catch_up()
    return log


def send(log: Changelog, schema: str, value: int | None, **version: int | None) -> None:
    number = log.world.registry.register("orders-key", schema).id
    log.world.keys[len(log.world.values)] = framed(number, schema, {"id": "a", **version})
    log.world.values.append(None if value is None else log.payload({"n": value}))


def values(log: Changelog) -> list[int]:
    rows = [row for batch in log.world.lake.read(log.view, columns=["value"], equal={}) for row in batch.to_pylist()]
    return [json.loads(row["value"])["n"] for row in rows]


def test_a_version_in_the_key_orders_records_by_both_names_and_as_a_wider_type(tmp_path: Path) -> None:
    log = keyed(tmp_path)
    send(log, NEW_KEY, 2, revision=7)
    send(log, OLD_KEY, 3, version=6)
    log.catch_up()
    assert values(log) == [2]
    send(log, NEW_KEY, None, revision=9)
    log.catch_up()
    send(log, OLD_KEY, 4, version=8)
    log.catch_up()
    assert values(log) == []
    log.spec = replace(log.spec, order_by="kafka_key.revision")
    send(log, OLD_KEY, 5, version=10)
    send(log, NEW_KEY, 6, revision=2**40)

    drained(log.world, log.spec)

    assert values(log) == [6]
    assert (log.verify().findings, log.against_kafka().findings) == ((), ())
    rebuild(log).perform()
    assert values(log) == [6]
    assert (log.verify().findings, log.against_kafka().findings) == ((), ())


def test_a_key_without_the_version_pauses_the_table(tmp_path: Path) -> None:
    log = keyed(tmp_path)
    send(log, OTHER_KEY, 2, other=1)

    with pytest.raises(IncompatibleSchemaError, match=r"kafka_key\.version: is missing, and orders") as refused:
        drained(log.world, log.spec)

    assert refused.value.always_pauses


def test_a_comparison_with_kafka_names_a_stale_row(tmp_path: Path) -> None:
    log = keyed(tmp_path)
    send(log, OLD_KEY, 2, version=9)
    log.catch_up()
    stale = {"kafka_key": [{"id": "a", "version": 5}], "kafka_offset": [0], "value": ['{"n": 1}']}
    log.replace_rows(lambda rows: _with(rows, stale))

    assert FindingKind.STALE_ROW in [finding.kind for finding in log.against_kafka().findings]


def _with(rows: pa.Table, columns: dict[str, list[object]]) -> pa.Table:
    for name, values_of_rows in columns.items():
        there = rows.schema.field(name)
        column = pa.array(values_of_rows, there.type)
        rows = rows.set_column(rows.schema.get_field_index(name), there, column)
    return rows
