"""Specs with shapes: the tables that they become, and what is refused."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from frazil.model.errors import FrazilError
from frazil.model.routes import Group, Route
from tests.routes import group_specs

LOG, NOW = "{table: log}", "{table: now, write: upsert}"


def spec(*shapes: str, more: str = "") -> str:
    listed = "".join(f"  - {shape}\n" for shape in shapes)
    return f"topic: customers\n{more}\nshapes:\n{listed}"


def test_each_shape_is_a_table_of_one_group(tmp_path: Path) -> None:
    history = (
        "{table: history, write: history, order_by: kafka_timestamp, delete_memory: 1d, partition_by: [is_current]}"
    )

    tables = group_specs(tmp_path, spec(LOG, NOW, history, more="bad_record_limit: off\nsort_by: [kafka_key]"))

    log, now, versions = tables
    assert {each.group for each in tables} == {
        Group("lake", "customers", (Route("log"), Route("now"), Route("history")))
    }
    assert log.group is not None and log.group.has_shapes
    assert (log.write, log.on_tombstone, log.partition_by) == ("append", "row", ("day(kafka_timestamp)",))
    assert (now.write, now.on_tombstone, now.order_by) == ("upsert", "delete", None)
    assert (versions.order_by, versions.delete_memory) == ("kafka_timestamp", timedelta(days=1))
    assert versions.partition_by == ("is_current",)
    assert {each.dead_letters_identifier for each in tables} == {"lake.customers__dead_letters"}
    assert {each.sort_by for each in tables} == {("kafka_key",)}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (spec(NOW, LOG), "shapes[0].write: the first shape has a row for each record, and counts them for all"),
        (spec(LOG, NOW, more="write: upsert"), "write: with shapes, each table has its own write"),
        (spec(LOG, more="order_by: kafka_timestamp"), "order_by: with shapes, each table has its own order_by"),
        (spec(LOG, "{table: Log}"), "shapes[1].table: Log is the table of an earlier shape, too"),
        (
            spec(LOG, "{table: customers__dead_letters}"),
            "shapes[1].table: customers__dead_letters is the name of the dead letters table of these shapes",
        ),
        (
            spec(LOG, more="routes: [{table: a, schema: b}]"),
            "shapes: a record goes to one of the routes, or to all of the shapes",
        ),
        (spec(LOG, NOW, more="key: avro\ncdc: debezium"), "cdc: change events are not supported with shapes"),
        (
            spec(LOG, "{table: now, write: upsert, order_by: at}"),
            "shapes[1].order_by: a record without a value has no at",
        ),
        (
            spec(LOG, NOW, "{table: first, write: deduplicate, identity: [id]}"),
            "shapes[2].identity: a record without a value has no identity, so it would be a dead letter of all shapes,"
            " and delete no row of now",
        ),
        (spec("{write: append}"), "shapes[0].table: required key is missing"),
        (spec(LOG, "{table: x, schema: y}"), "shapes[1].schema: unknown key"),
    ],
)
def test_what_contradicts_itself_is_named(tmp_path: Path, text: str, found: str) -> None:
    with pytest.raises(FrazilError) as refused:
        group_specs(tmp_path, text)

    assert found in str(refused.value)
