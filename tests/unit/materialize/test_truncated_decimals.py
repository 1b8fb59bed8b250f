"""A decimal that Iceberg's `truncate` takes out of its type is a dead letter: no manifest could name its partition."""

from __future__ import annotations

import json
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pytest
from grouped_tables import DEAD_LETTERS, GroupWorld, specs
from values_of_tables import spec
from whole_batches import World, drained, framed

from frazil.adapters.iceberg.lake import IcebergLake
from frazil.materialize.ingest.least_placed import least_placed
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

    assert least_placed(("d", "bucket(50, d)", "truncate(5, s)", "truncate(5, gone)"), columns) == {}


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
