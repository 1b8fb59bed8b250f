"""The columns that Frazil adds to a table, their names, and the dead-letter table."""

from __future__ import annotations

import pytest
from values_of_tables import SPEC, names, spec

from frazil.materialize.changed_spec.applied_spec import applied_by, ever_kept, spec_property
from frazil.materialize.layout import DEAD_LETTER_COLUMNS, metadata_columns, name_clashes, newly_unreadable
from frazil.model.columns import Column, ListOf, MapOf, Scalar, Struct, walk
from frazil.model.spec import MetadataColumns


def about(*keep: str, key: str = "string", prefix: str = "kafka_", key_type: Scalar | None = None) -> dict[str, str]:
    wanted = spec(metadata=MetadataColumns(prefix, keep), key=key)
    key_column = None if key_type is None else Column("key", key_type)
    return {column.name: str(column.type) for column in metadata_columns(wanted, key_column)}


def test_every_metadata_column_has_its_type() -> None:
    every = ("topic", "partition", "offset", "timestamp", "timestamp_type", "key", "headers", "schema_id",
             "leader_epoch", "value")  # fmt: skip

    assert about(*every, prefix="_k_") == {
        "_k_topic": "string",
        "_k_partition": "int",
        "_k_offset": "long",
        "_k_timestamp": "timestamptz",
        "_k_timestamp_type": "string",
        "_k_key": "string",
        "_k_headers": "list<struct<key: string, value: binary>>",
        "_k_schema_id": "int",
        "_k_leader_epoch": "int",
        "_k_value": "binary",
    }


@pytest.mark.parametrize(
    ("key", "known", "expected"),
    [
        ("bytes", None, {"kafka_key": "binary"}),
        ("string", None, {"kafka_key": "string"}),
        ("avro", Scalar("long"), {"kafka_key": "long"}),
        ("avro", None, {}),
        ("none", None, {}),
    ],
)
def test_the_key_column_has_the_type_of_the_key(key: str, known: Scalar | None, expected: dict[str, str]) -> None:
    assert about("key", key=key, key_type=known) == expected


@pytest.mark.parametrize("name", ["kafka_offset", "KAFKA_Offset", "kafka_key"])
def test_a_field_with_the_name_of_a_metadata_column_is_a_finding(name: str) -> None:
    (finding,) = name_clashes((Column(name, Scalar("long")), Column("n", Scalar("long"))), SPEC)

    assert (finding.path, finding.problem) == (name, f"the name clashes with the metadata column {name.lower()}")


def test_a_key_column_that_is_still_to_come_has_its_name_reserved() -> None:
    field = (Column("kafka_key", Scalar("long")),)

    assert len(name_clashes(field, spec(key="avro"))) == 1
    assert name_clashes(field, spec(key="none")) == ()
    assert name_clashes(field, spec(metadata=MetadataColumns("kafka_", ("partition", "offset")))) == ()
    assert name_clashes((Column("n", Struct(field)),), SPEC) == ()


@pytest.mark.parametrize(("first", "reserved"), [("string", True), ("none", False)])
@pytest.mark.parametrize("keep", [("offset", "key"), ("offset",)])
def test_a_key_column_of_the_past_has_its_name_reserved(first: str, reserved: bool, keep: tuple[str, ...]) -> None:
    """Its old values are in the table, and nothing compares them any more."""
    before = applied_by(spec(key=first, metadata=MetadataColumns("kafka_", ("offset", "key"))))
    now = spec(key="none", metadata=MetadataColumns("kafka_", keep))
    properties = spec_property(applied_by(now, before))

    found = name_clashes((Column("kafka_key", Scalar("string")),), ever_kept(now, properties))

    assert bool(found) is reserved


def test_a_time_at_any_depth_is_a_finding_where_spark_must_read() -> None:
    time = Scalar("time")
    columns = (
        Column("opens", time),
        Column("closes", Scalar("timestamp")),
        Column("breaks", ListOf(Struct((Column("begins", MapOf(Scalar("string"), time)),)))),
    )

    found = newly_unreadable((), columns, spec(readers=("duckdb", "spark")))

    assert [finding.path for finding in found] == ["opens", "breaks[].begins"]
    assert "remove spark from `readers`" in found[0].problem
    assert newly_unreadable((), columns, spec(readers=("snowflake", "athena", "duckdb"))) == ()
    assert newly_unreadable(columns, columns, spec(readers=("spark",))) == (), "a table keeps what it has"


def test_dead_letter_columns_are_final() -> None:
    assert names(DEAD_LETTER_COLUMNS) == [
        "topic", "topic_id", "generation", "partition", "offset", "timestamp", "key", "value", "headers", "reason",
        "detail", "path", "schema_id", "batch_id", "read_at", "table_uuid",
    ]  # fmt: skip


def test_paths_tell_structs_lists_and_maps_apart() -> None:
    inner = Struct((Column("b", Scalar("int")),))
    columns = (Column("a", ListOf(inner)), Column("m", MapOf(Scalar("string"), ListOf(inner))))

    assert [path for path, _ in walk(columns)] == ["a", "a[].b", "m", "m{}[].b"]
