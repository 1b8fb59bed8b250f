"""A value that Iceberg's `truncate` or `hour` takes out of a type is a dead letter: it has no partition."""

from __future__ import annotations

import json
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pytest
from grouped_tables import DEAD_LETTERS, GroupWorld, specs
from pyiceberg.expressions import IsNull, NotNull
from values_of_tables import spec
from whole_batches import World, drained, framed

from frazil.adapters.iceberg.lake import IcebergLake
from frazil.materialize.ingest.partition_bounds import partition_bounds
from frazil.model.errors import SpecChangeError
from frazil.model.settings import CatalogSettings
from frazil.model.spec import BadRecordLimit, OnBadRecord, TableSpec
from frazil.proof.verification import Verification
from frazil.verify.against_kafka import KafkaSide
from frazil.verify.table import verify_table
from tests.fakes.clients_in_memory import a_field, record

MONEY = {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}
PRICE = record(a_field("d", ["null", MONEY]))
LEAST, LESS, GREATEST = Decimal("-9999999.50"), Decimal("-9999999.51"), Decimal("9999999.99")


def verified(world: World, wanted: TableSpec) -> Verification:
    return verify_table(world.lake, wanted, kafka=KafkaSide(world.topics, cast(Any, world), world.registry))


def test_such_a_record_is_a_dead_letter_and_the_others_are_rows(tmp_path: Path) -> None:
    world = World(IcebergLake(CatalogSettings("jdbc", str(tmp_path / "warehouse"))))
    world.registry.register("orders-value", PRICE)
    world.values = [framed(1, PRICE, {"d": each}) for each in (GREATEST, LESS, LEAST, None)]
    wanted = spec(partition_by=("truncate(50, d)",), bad_record_limit=BadRecordLimit.off())

    drained(world, wanted)

    rows = world.lake.catalog.load_table(wanted.identifier).scan().to_arrow()
    assert sorted(rows["kafka_offset"].to_pylist()) == [0, 2, 3]
    letters = world.lake.catalog.load_table(wanted.dead_letters_identifier).scan().to_arrow().to_pylist()
    (found,) = [(each["offset"], each["reason"], each["path"], each["detail"]) for each in letters]
    assert found == (
        1,
        "out_of_range",
        "d",
        "it has no partition: truncate takes values below -9999999.50 out of the column's type",
    )
    verification = verified(world, wanted)
    assert verification.findings == ()
    assert not [note for note in verification.notes if "can be decoded now" in note]


@pytest.mark.parametrize("on_bad_record", ["skip", "dead_letter"])
def test_a_key_keeps_its_row_after_such_a_record(tmp_path: Path, on_bad_record: OnBadRecord) -> None:
    world = World(IcebergLake(CatalogSettings("jdbc", str(tmp_path / "warehouse"))))
    world.registry.register("orders-value", PRICE)
    world.values = [framed(1, PRICE, {"d": each}) for each in (GREATEST, LESS)]
    world.keys = {0: b"a", 1: b"a"}
    wanted = spec(
        write="upsert",
        on_tombstone="delete",
        partition_by=("truncate(50, d)",),
        on_bad_record=on_bad_record,
        bad_record_limit=BadRecordLimit.off(),
    )

    drained(world, wanted)

    assert verified(world, wanted).findings == ()


def test_a_decimal_key_may_have_no_partition_either(tmp_path: Path) -> None:
    world = World(IcebergLake(CatalogSettings("jdbc", str(tmp_path / "warehouse"))))
    world.registry.register("orders-value", PRICE)
    world.registry.register("orders-key", json.dumps(MONEY))
    world.values = [framed(1, PRICE, {"d": GREATEST}) for _ in range(2)]
    world.keys = {n: framed(2, json.dumps(MONEY), each) for n, each in enumerate((LEAST, LESS))}
    wanted = spec(key="avro", partition_by=("truncate(50, kafka_key)",), bad_record_limit=BadRecordLimit.off())

    drained(world, wanted)

    rows = world.lake.catalog.load_table(wanted.identifier).scan().to_arrow()
    assert rows["kafka_key"].to_pylist() == [LEAST]
    assert verified(world, wanted).findings == ()


def test_other_partitions_ask_nothing_of_decimals() -> None:
    columns = pa.schema([("d", pa.decimal128(9, 2)), ("s", pa.large_string())])

    assert partition_bounds(("d", "bucket(50, d)", "truncate(5, s)", "truncate(5, gone)"), columns) == {}


def test_keys_of_other_routes_have_no_partition_to_lack(tmp_path: Path) -> None:
    world = GroupWorld.at(tmp_path)
    key_id = world.registry.register("events-key", json.dumps(MONEY)).id
    orders, refunds = specs(key="avro")
    orders = replace(orders, partition_by=("truncate(50, kafka_key)",))
    world.send("order", "order", "refund")
    keys = (LEAST, LESS, LESS)
    world.keys = {at: framed(key_id, json.dumps(MONEY), key) for at, key in enumerate(keys)}

    world.catch_up(world.driver(orders, refunds))

    assert (world.offsets("lake.orders"), world.offsets("lake.refunds")) == ([0], [2])
    assert world.offsets(DEAD_LETTERS, "offset") == [1]


def test_a_table_with_rows_is_not_truncated_later(tmp_path: Path) -> None:
    """A row that is written again would need a partition: a rebuild makes such records dead letters."""
    world = World(IcebergLake(CatalogSettings("jdbc", str(tmp_path / "warehouse"))))
    world.registry.register("orders-value", PRICE)
    made = spec(bad_record_limit=BadRecordLimit.off())
    world.table(made).create()
    truncated, whole = (replace(made, partition_by=(f"{how}(50, d)",)) for how in ("truncate", "bucket"))
    drained(world, truncated)
    world.values = [framed(1, PRICE, {"d": LESS})]
    drained(world, whole)

    with pytest.raises(
        SpecChangeError, match=r"numbers that truncate\(50, d\) takes below the least one of their type"
    ):
        drained(world, truncated)

    world.values.append(framed(1, PRICE, {"d": LEAST}))
    drained(world, whole)
    assert verified(world, whole).findings == ()


TIME = {"type": "long", "logicalType": "timestamp-micros"}
LAST_HOUR = 2**31 * 3_600_000_000 - 1
"""In microseconds."""


@pytest.mark.parametrize(
    ("avro", "partition", "values", "without"),
    [
        ("int", "truncate(10, d)", [-(2**31), -(2**31) + 8, 2**31 - 1], [0]),
        ("long", "truncate(10, d)", [-(2**63), -(2**63) + 7, -(2**63) + 8, 2**63 - 1], [0, 1]),
        ("long", "truncate(16, d)", [-(2**63), 2**63 - 1], []),
        (TIME, "hour(d)", [LAST_HOUR, LAST_HOUR + 1, -LAST_HOUR - 1, -LAST_HOUR - 2], [1, 3]),
        (TIME, "day(d)", [2**63 - 1, -(2**63)], []),
    ],
)
def test_a_number_or_a_time_whose_partition_would_wrap_around_is_a_dead_letter(
    tmp_path: Path, avro: object, partition: str, values: list[int], without: list[int]
) -> None:
    """Queries with a condition on the column would not find the row."""
    world = World(IcebergLake(CatalogSettings("jdbc", str(tmp_path / "warehouse"))))
    text = record(a_field("d", avro))
    world.registry.register("orders-value", text)
    raw = record(a_field("d", "int" if avro == "int" else "long"))
    world.values = [framed(1, raw, {"d": each}) for each in values]
    wanted = spec(partition_by=(partition,), bad_record_limit=BadRecordLimit.off())

    drained(world, wanted)

    rows = world.lake.catalog.load_table(wanted.identifier)
    kept = sorted(set(range(len(values))) - set(without))
    assert sorted(rows.scan().to_arrow()["kafka_offset"].to_pylist()) == kept
    bounds = [rows.scan(row_filter=each).to_arrow().num_rows for each in (IsNull("d"), NotNull("d"))]
    assert bounds == [0, len(kept)]
    letters = world.lake.catalog.load_table(wanted.dead_letters_identifier).scan().to_arrow()
    assert sorted(letters["offset"].to_pylist()) == without
    assert {*letters["reason"].to_pylist()} <= {"out_of_range"}
    assert verified(world, wanted).findings == ()


def test_columns_about_the_record_are_not_judged(tmp_path: Path) -> None:
    world = World(IcebergLake(CatalogSettings("jdbc", str(tmp_path / "warehouse"))))
    world.registry.register("orders-value", record(a_field("d")))
    world.values = [framed(1, record(a_field("d")), {"d": -(2**63)})]
    wanted = spec(partition_by=("truncate(1000, kafka_offset)", "hour(kafka_timestamp)"))

    drained(world, wanted)

    assert world.lake.catalog.load_table(wanted.identifier).scan().to_arrow()["kafka_offset"].to_pylist() == [0]


def test_an_earlier_row_stays_one_if_numbers_are_truncated_later(tmp_path: Path) -> None:
    world = World(IcebergLake(CatalogSettings("jdbc", str(tmp_path / "warehouse"))))
    world.registry.register("orders-value", record(a_field("d")))
    world.values = [framed(1, record(a_field("d")), {"d": -(2**63)})]
    made = spec(bad_record_limit=BadRecordLimit.off())
    drained(world, made)
    truncated = replace(made, partition_by=("truncate(10, d)",))
    world.values *= 2

    drained(world, truncated)

    assert world.lake.catalog.load_table(made.identifier).scan().to_arrow()["kafka_offset"].to_pylist() == [0]
    assert verified(world, truncated).findings == ()
