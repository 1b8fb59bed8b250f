"""Problems are found before anything is made: `check` reports all, `materialize` the first."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import ListType, LongType, MapType, NestedField, StringType, StructType
from values_of_tables import SPEC, names, spec, topic

import frazil
from frazil.adapters.iceberg.lake import IcebergLake
from frazil.materialize import evolve as evolve_module
from frazil.materialize.changed_spec.follow_spec import follow_spec
from frazil.materialize.create import ensure_table, new_table
from frazil.materialize.dead_letters import ensure_dead_letters
from frazil.materialize.evolve import Absorbed, evolution_for, evolve
from frazil.materialize.pause.pausing import PAUSED_PROPERTY
from frazil.materialize.preview.preflight import problems
from frazil.materialize.schema import fitted as fitted_module
from frazil.materialize.schema.fitted import fitted, hash_of
from frazil.materialize.schema.former_names import former_names_of
from frazil.materialize.schema.requirements import RequiredColumns, of_values
from frazil.materialize.schema.succession import Accepted
from frazil.materialize.sources import latest_schemas
from frazil.materialize.state import standing
from frazil.model.columns import walk
from frazil.model.errors import (
    CatalogError,
    ForeignOwnerError,
    ForeignTableError,
    FormatVersionError,
    FrazilError,
    IncompatibleSchemaError,
    SpecChangeError,
    SpecError,
    SubjectMissingError,
    TopicMissingError,
)
from frazil.model.plan import TopicFacts, WriterSchemas
from frazil.model.progress import TableState
from frazil.model.schemas import RegisteredSchema
from frazil.model.settings import CatalogSettings
from frazil.model.snapshot import TableView
from frazil.model.spec import MetadataColumns, StartOffsets, SubjectSettings, TableSpec
from tests.fakes.clients_in_memory import RegistryInMemory, TopicsInMemory, a_field, record

DATE = {"type": "int", "logicalType": "date"}
DIGITS = {"type": "bytes", "logicalType": "decimal", "precision": 39}
NO_SCHEMAS = WriterSchemas({}, {})


@dataclass
class World:
    """A catalog in a folder, a topic with offsets [2, 9), and its schema."""

    lake: IcebergLake
    topics: TopicsInMemory
    registry: RegistryInMemory

    def check(self, *specs: TableSpec) -> list[FrazilError]:
        return list(problems(specs, lake=self.lake, topics=self.topics, registry=self.registry))

    def make(self, wanted: TableSpec = SPEC, *, adopt: bool = False) -> TableView:
        view = ensure_table(self.lake, self.topics, self.registry, wanted, new_writer="w", adopt=adopt)
        ensure_dead_letters(self.lake, wanted, standing(view, pipeline=wanted.pipeline))
        return view

    def absorb(
        self, wanted: TableSpec = SPEC, *, absorbed: Absorbed | None = None, state: TableState | None = None
    ) -> TableView:
        view = self.lake.load(wanted.identifier)
        assert view is not None
        view = follow_spec(self.lake, wanted, view).view
        state = state or standing(view, pipeline=wanted.pipeline).state
        known = absorbed or Absorbed({}, {})
        return evolve(self.lake, self.registry, wanted, view, state=state, met=NO_SCHEMAS, absorbed=known)

    def tables(self) -> list[str]:
        if not self.lake.catalog.namespace_exists("lake"):
            return []
        return sorted(".".join(each) for each in self.lake.catalog.list_tables("lake"))

    def foreign(self, identifier: str, *fields: NestedField) -> None:
        self.lake.catalog.create_namespace_if_not_exists("lake")
        self.lake.catalog.create_table(identifier, Schema(*fields))


@pytest.fixture
def world(tmp_path: Path) -> World:
    registry = RegistryInMemory()
    registry.register("orders-value", record(a_field("n"), a_field("at", DATE)))
    lake = IcebergLake(CatalogSettings("jdbc", str(tmp_path / "warehouse")))
    return World(lake, TopicsInMemory({"orders": topic({0: (2, 9)})}), registry)


def only(found: list[FrazilError]) -> FrazilError:
    assert len(found) == 1, found
    return found[0]


def refused(world: World, wanted: TableSpec, **how: Any) -> FrazilError:
    """What `materialize` says, having made nothing."""
    before = world.tables()
    with pytest.raises(FrazilError) as error:
        world.make(wanted, **how)
    assert world.tables() == before
    return error.value


def test_nothing_stands_against_a_good_table_before_and_after_it_is_made(world: World) -> None:
    assert world.check(SPEC) == []

    world.make()

    assert world.check(SPEC) == []
    assert world.tables() == ["lake.orders", "lake.orders__dead_letters"]


def test_fixed_bytes_partition_a_table_in_buckets_only(world: World) -> None:
    """Spark 4.1.1 with Iceberg 1.11.0 cannot read the manifests of a table that is partitioned by their values."""
    code = a_field("code", {"type": "fixed", "name": "Code", "size": 4})
    world.registry.register("orders-value", record(a_field("n"), code))

    assert world.check(spec(partition_by=("bucket(4, code)",))) == []
    found = refused(world, spec(partition_by=("code",)))
    assert found.what == (
        "lake.orders: partition_by: code is of type fixed(4), and Spark cannot read a table that is partitioned by its"
        " values"
    )


def test_a_check_makes_nothing(world: World) -> None:
    world.check(SPEC)

    assert world.tables() == []


SPARK_READS = spec(readers=("duckdb", "spark"))
OPENS = a_field("opens", {"type": "int", "logicalType": "time-millis"})


def test_a_check_says_when_a_table_without_duplicates_forgets(world: World) -> None:
    said: list[str] = []
    first = replace(SPEC, write="deduplicate")

    assert (
        problems((SPEC, first), lake=world.lake, topics=world.topics, registry=world.registry, remark=said.append) == ()
    )
    assert [line for line in said if "becomes a row again" in line] == [
        f"{first.identifier}: an identity is known as long as its row is there: after retention, an erasure or another"
        " engine has deleted the row, a later record of the identity becomes a row again"
    ]


def test_a_time_of_day_is_refused_where_spark_must_read(world: World) -> None:
    world.registry.register("orders-value", record(OPENS))

    found, said = only(world.check(SPARK_READS)), refused(world, SPARK_READS)

    assert isinstance(found, IncompatibleSchemaError)
    assert found.what == said.what
    assert "opens: is a time, which Spark cannot read" in found.what
    assert world.check(SPEC) == []


def test_a_time_of_day_that_comes_later_is_refused_where_spark_must_read(world: World) -> None:
    world.make(SPARK_READS)
    world.registry.register("orders-value", record(a_field("n"), OPENS))

    found = only(world.check(SPARK_READS))
    with pytest.raises(IncompatibleSchemaError) as said:
        world.absorb(SPARK_READS)

    assert found.what == said.value.what
    assert "opens" not in names(world.lake.load("lake.orders").columns)  # type: ignore[union-attr]


TIMED = MetadataColumns("kafka_", ("partition", "offset", "timestamp"))
WRONG: dict[str, tuple[TableSpec, type[FrazilError], str, str]] = {
    "no such topic": (
        spec(topics=("orderz",), value_subject=SubjectSettings(override="orders-value")),
        TopicMissingError,
        "lake.orders: the cluster has no topic orderz, or this user may not see it",
        "did you mean orders? create the topic, or fix `topic` in tables/orders.yaml",
    ),
    "no such subject": (
        spec(value_subject=SubjectSettings(override="orderz-value")),
        SubjectMissingError,
        "lake.orders: the schema registry has no subject orderz-value, which should hold the schema of orders",
        "register it (a producer does with its first record), or set `subject` in tables/orders.yaml",
    ),
    "no subject of keys": (
        spec(key="avro"),
        SubjectMissingError,
        "lake.orders: the schema registry has no subject orders-key, which should hold the schema of orders",
        "register it (a producer does with its first record), or set `key_subject` in tables/orders.yaml",
    ),
    "partition column missing": (
        spec(partition_by=("bucket(16, account)",)),
        SpecError,
        "lake.orders: partition_by: bucket(16, account) names a column that the table does not have; its columns are n,"
        " at, kafka_partition, kafka_offset, kafka_timestamp, kafka_key, kafka_schema_id",
        "fix `partition_by` in tables/orders.yaml",
    ),
    "partition column misspelt": (
        spec(partition_by=("day(kafka_timestmp)",)),
        SpecError,
        "lake.orders: partition_by: day(kafka_timestmp) names a column that the table does not have; its columns are n,"
        " at, kafka_partition, kafka_offset, kafka_timestamp, kafka_key, kafka_schema_id",
        "did you mean kafka_timestamp? fix `partition_by` in tables/orders.yaml",
    ),
    "partition of a wrong type": (
        spec(partition_by=("hour(at)",)),
        SpecError,
        "lake.orders: partition_by: hour(at) cannot partition by a column of type date",
        "fix `partition_by` in tables/orders.yaml",
    ),
    "sort column missing": (
        spec(sort_by=("n", "account desc")),
        SpecError,
        "lake.orders: sort_by: account names a column that the table does not have; its columns are n,"
        " at, kafka_partition, kafka_offset, kafka_timestamp, kafka_key, kafka_schema_id",
        "fix `sort_by` in tables/orders.yaml",
    ),
    "sort column misspelt": (
        spec(sort_by=("kafka_ofset desc",)),
        SpecError,
        "lake.orders: sort_by: kafka_ofset names a column that the table does not have; its columns are n,"
        " at, kafka_partition, kafka_offset, kafka_timestamp, kafka_key, kafka_schema_id",
        "did you mean kafka_offset? fix `sort_by` in tables/orders.yaml",
    ),
    "column of the order misspelt": (
        spec(write="upsert", key="string", order_by="kafka_timestmp", on_tombstone="skip"),
        SpecError,
        "lake.orders: order_by: kafka_timestmp: names a column that the table does not have; its columns are n,"
        " at, kafka_partition, kafka_offset, kafka_timestamp, kafka_key, kafka_schema_id,"
        " frazil_identity_1, frazil_identity_2",
        "did you mean kafka_timestamp? fix `order_by` in tables/orders.yaml",
    ),
    "column of the identity misspelt": (
        spec(write="deduplicate", key="string", identity=("kafka_ky",)),
        SpecError,
        "lake.orders: identity: kafka_ky names a column that the table does not have; its columns are n,"
        " at, kafka_partition, kafka_offset, kafka_timestamp, kafka_key, kafka_schema_id,"
        " frazil_identity_1, frazil_identity_2",
        "did you mean kafka_key? fix `identity` in tables/orders.yaml",
    ),
    "identity inside a column that is no struct": (
        spec(write="deduplicate", key="string", identity=("at.day",)),
        SpecError,
        "lake.orders: identity: at.day names what is inside at, which is date",
        "fix `identity` in tables/orders.yaml",
    ),
    "sort by a transform that the type does not have": (
        spec(sort_by=("hour(at) nulls last",)),
        SpecError,
        "lake.orders: sort_by: hour(at) cannot sort by a column of type date",
        "fix `sort_by` in tables/orders.yaml",
    ),
    "start outside the topic": (
        spec(start=StartOffsets({0: 10})),
        SpecError,
        "lake.orders: `start` names offset 10 of orders-0, which has the offsets 2 to 9",
        "fix `start` in tables/orders.yaml",
    ),
    "start before the topic": (
        spec(start=StartOffsets({0: 1})),
        SpecError,
        "lake.orders: `start` names offset 1 of orders-0, which has the offsets 2 to 9",
        "fix `start` in tables/orders.yaml",
    ),
    "start in no partition": (
        spec(start=StartOffsets({7: 2})),
        SpecError,
        "lake.orders: `start` names offset 2 of orders-7, which has the partitions 0",
        "fix `start` in tables/orders.yaml",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_is_found_by_check_and_refused_by_materialize_before_anything_is_made(
    world: World, case: str
) -> None:
    wanted, kind, what, hint = WRONG[case]

    found, said = only(world.check(wanted)), refused(world, wanted)

    assert (type(found), found.what, found.hint) == (kind, what, hint)
    assert (type(said), said.what, said.hint) == (kind, what, hint)
    assert found.exit_status == (2 if kind is SpecError else 1)


@pytest.mark.parametrize(
    ("text", "findings"),
    [
        (
            record(a_field("a", {"type": "fixed", "name": "F", "size": 0}), a_field("b", DIGITS)),
            ["a: a fixed of 0 bytes", "b: a decimal of 39 digits, more than 38"],
        ),
        (record(a_field("n"), a_field("N")), ["n and N differ only in case"]),
        (
            record(a_field("kafka_offset"), a_field("Kafka_Key"), a_field("n")),
            [
                "kafka_offset: the name clashes with the metadata column kafka_offset",
                "Kafka_Key: the name clashes with the metadata column kafka_key",
            ],
        ),
        ("{", ["not JSON"]),
    ],
    ids=["no columns", "case twins", "metadata names", "no schema"],
)
def test_a_schema_that_no_table_can_hold_is_refused_with_all_findings(
    world: World, text: str, findings: list[str]
) -> None:
    world.registry.register("orders-value", text)

    found, said = only(world.check(SPEC)), refused(world, SPEC)

    assert type(found) is IncompatibleSchemaError
    assert found.what == said.what
    assert [finding for finding in findings if finding not in found.what] == []


def test_a_subject_of_another_format_is_refused(world: World) -> None:
    world.registry.register("orders-value", "syntax = ...", schema_format="PROTOBUF")

    said = f"is PROTOBUF, the spec says avro: write `value: protobuf` in {SPEC.source_file} if all records of the topic"
    assert said in only(world.check(SPEC)).what
    assert said in refused(world, SPEC).what


def test_topics_whose_schemas_contradict_each_other_share_no_table(world: World) -> None:
    both = spec(topics=("orders", "returns"))
    world.topics.facts = {name: TopicFacts(name, None, {}) for name in both.topics}
    second = world.registry.register("returns-value", record(a_field("n", "string"), a_field("x")))

    found, said = only(world.check(both)), refused(world, both)

    assert found.what == said.what
    assert f"the writer schema {second.id} is not a safe change for the table" in found.what
    assert "n: is string in the writer's schema, the table has long" in found.what


def test_a_table_of_several_topics_begins_with_the_columns_of_all(world: World) -> None:
    both = spec(topics=("orders", "returns"))
    world.topics.facts = {name: TopicFacts(name, None, {}) for name in both.topics}
    world.registry.register("returns-value", record(a_field("n", "int"), a_field("x", "string", "y")))

    view = world.make(both)

    assert names(view.columns)[:3] == ["n", "at", "x"]
    assert former_names_of(view.properties) == {"x": ("y",)}


def test_a_partition_field_may_not_take_the_name_of_a_column(world: World) -> None:
    world.registry.register("orders-value", record(a_field("kafka_timestamp_day")))
    wanted = spec(partition_by=("day(kafka_timestamp)",))

    said = refused(world, wanted)

    assert "day(kafka_timestamp) needs the name kafka_timestamp_day, which a column already has" in said.what
    assert only(world.check(wanted)).what == said.what


AT = {"type": "int", "logicalType": "time-millis"}
LOCAL = {"type": "long", "logicalType": "local-timestamp-micros"}
HASH = {"type": "fixed", "name": "Hash", "size": 8}
PARTY = {"type": "record", "name": "Party", "fields": [a_field("since", LOCAL), a_field("hash", HASH)]}
IN_BOTH = spec(formats=("iceberg", "delta"))


def test_what_delta_has_no_place_for_is_refused_by_column_before_anything_is_made(world: World) -> None:
    world.registry.register("orders-value", record(a_field("n"), a_field("at", AT), a_field("party", PARTY)))

    found, said = world.check(IN_BOTH), refused(world, IN_BOTH)

    assert [(type(each), each.what.partition(", ")[0]) for each in found] == [
        (SpecError, "lake.orders: formats: delta: the column at is a time of day"),
        (SpecError, "lake.orders: formats: delta: the column party.since is a local timestamp"),
        (SpecError, "lake.orders: formats: delta: the column party.hash is a fixed(8)"),
    ]
    assert said.what == found[0].what
    assert "remove delta from `formats` in tables/orders.yaml" in said.hint
    assert world.check(SPEC) == []


def test_a_column_that_delta_has_no_place_for_is_found_by_check_and_holds_up_no_table(world: World) -> None:
    world.make(IN_BOTH)
    world.registry.register("orders-value", record(a_field("n"), a_field("at", DATE), a_field("t", ["null", AT])))

    found, view = only(world.check(IN_BOTH)), world.absorb(IN_BOTH)

    assert "formats: delta: the column t is a time of day" in found.what
    assert "t" in names(view.columns)


def test_a_table_that_frazil_did_not_make_is_refused(world: World) -> None:
    world.foreign("lake.orders", NestedField(1, "n", LongType()))

    found, said = only(world.check(SPEC)), refused(world, SPEC)

    assert type(found) is type(said) is ForeignTableError
    assert found.what == said.what == "the table lake.orders exists and Frazil did not create it"


def test_a_table_of_another_pipeline_is_refused(world: World) -> None:
    world.make()
    other = spec(topics=("returns",), value_subject=SubjectSettings(override="orders-value"))
    world.topics.facts = {**world.topics.facts, "returns": TopicFacts("returns", None, {})}

    found, said = world.check(other), refused(world, other)

    assert {type(each) for each in found} == {ForeignOwnerError}
    assert type(said) is ForeignOwnerError
    assert said.what in [each.what for each in found]


def test_dead_letters_of_somebody_else_are_refused_before_the_table_is_made(world: World) -> None:
    world.foreign("lake.orders__dead_letters", NestedField(1, "n", LongType()))

    found, said = only(world.check(SPEC)), refused(world, SPEC)

    assert type(found) is type(said) is ForeignTableError
    assert "which would hold the dead letters" in found.what == said.what


def test_a_schema_that_does_not_fit_the_table_is_found_with_every_path(world: World) -> None:
    world.make()
    world.registry.register("orders-value", record(a_field("n", "string"), a_field("at", "string"), a_field("new")))

    found = only(world.check(SPEC))
    with pytest.raises(IncompatibleSchemaError) as said:
        world.absorb()

    assert found.what == said.value.what
    assert found.what.endswith(
        "2 findings:\n"
        "  - n: is string in the writer's schema, the table has long\n"
        "  - at: is string in the writer's schema, the table has date"
    )


def test_everything_that_is_wrong_is_said_at_once(world: World) -> None:
    world.foreign("lake.orders__dead_letters", NestedField(1, "n", LongType()))
    wanted = spec(
        topics=("orderz",), partition_by=("n", "x", "hour(at)"), value_subject=SubjectSettings(override="orders-value")
    )

    found = world.check(wanted)

    assert [type(each) for each in found] == [TopicMissingError, SpecError, SpecError, ForeignTableError]


def test_changes_of_others_that_cannot_be_counted_hide_no_problem(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unreadable(*_: object) -> None:
        raise CatalogError("the manifests of others cannot be read", hint="check the network")

    view = world.make()
    with world.lake.catalog.load_table(SPEC.identifier).transaction() as others:
        others.append(pa.table({"n": [1]}))
    load = world.lake.load

    def loaded(identifier: str) -> TableView | None:
        view = load(identifier)
        snapshots = {} if view is None else view.snapshots
        unread = {n: replace(s, count_live=unreadable, sources_since=unreadable) for n, s in snapshots.items()}
        return view and replace(view, snapshots=unread)

    monkeypatch.setattr(world.lake, "load", loaded)
    missing = replace(SPEC, table="other", topics=("orderz",), value_subject=SubjectSettings(override="orders-value"))

    assert loaded(SPEC.identifier) != view
    assert [type(each) for each in world.check(SPEC, missing)] == [TopicMissingError]


def test_what_does_not_answer_is_asked_once_for_all_tables_and_said_once(world: World) -> None:
    world.topics.down = world.registry.down = True
    tables = [replace(SPEC, table=f"t{n}") for n in range(5)]

    found = world.check(*tables)

    assert [each.what for each in found] == ["the broker is down", "the registry is down"]
    assert (len(world.topics.asked), len(world.registry.asked)) == (1, 1)


def test_a_catalog_that_cannot_be_opened_is_said_once(world: World, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    world.lake = IcebergLake(CatalogSettings("jdbc", str(tmp_path / "file")))

    found = only(world.check(SPEC, replace(SPEC, table="other")))

    assert type(found) is CatalogError
    assert f"cannot create the warehouse folder {tmp_path / 'file'}" in found.what


# --- what a table gets over time ------------------------------------------------------------------------------------


def test_a_metadata_column_that_the_spec_asks_for_later_is_added(world: World) -> None:
    world.make()
    later = spec(metadata=MetadataColumns("kafka_", (*SPEC.metadata.keep, "headers")))

    assert names(world.absorb(later).columns)[-1] == "kafka_headers"
    assert world.check(later) == []


def test_a_key_that_is_read_in_another_way_than_the_table_holds_it_is_refused(world: World) -> None:
    world.make()
    later = spec(key="bytes")

    with pytest.raises(SpecChangeError) as said:
        world.absorb(later)

    assert said.value.what == (
        "lake.orders: the table cannot follow a change of its spec: key: string -> bytes:"
        " the column kafka_key is string, which cannot hold keys read as bytes"
    )
    assert only(world.check(later)).what == said.value.what
    assert PAUSED_PROPERTY not in world.lake.load("lake.orders").properties  # type: ignore[union-attr]


def test_an_alias_does_not_lead_from_a_field_to_a_column_about_the_record(world: World) -> None:
    world.make()
    world.registry.register("orders-value", record(a_field("n"), a_field("position", "long", "kafka_offset")))

    columns = names(world.absorb().columns)

    assert {"position", "kafka_offset"} <= set(columns)


def test_keys_that_no_column_is_kept_for_get_none_and_need_no_schema(world: World) -> None:
    keyless = spec(key="avro", metadata=MetadataColumns("kafka_", ("partition", "offset")))
    world.make(keyless)

    assert world.check(keyless) == []
    assert "kafka_key" not in names(world.absorb(keyless).columns)


def test_a_table_of_somebody_else_is_adopted_and_gets_the_columns_that_it_lacks(world: World) -> None:
    world.foreign("lake.orders", NestedField(1, "n", LongType()), NestedField(2, "theirs", StringType()))

    world.make(adopt=True)

    assert names(world.absorb().columns) == [
        "n", "theirs", "kafka_partition", "kafka_offset", "kafka_timestamp", "kafka_key", "kafka_schema_id", "at",
    ]  # fmt: skip
    assert world.check(SPEC) == []


def test_a_table_of_somebody_else_that_does_not_fit_is_not_adopted(world: World) -> None:
    world.foreign("lake.orders", NestedField(1, "n", StringType()), NestedField(2, "KAFKA_offset", LongType()))

    said = refused(world, SPEC, adopt=True)

    assert type(said) is IncompatibleSchemaError
    assert "n: is long in the writer's schema, the table has string" in said.what
    assert "kafka_offset: differs only in letter case from the table's column KAFKA_offset" in said.what


def test_a_table_with_required_columns_that_records_may_lack_is_not_adopted(world: World) -> None:
    line = StructType(NestedField(6, "price", LongType(), required=True))
    world.foreign(
        "lake.orders",
        NestedField(1, "id", LongType(), required=True),
        NestedField(2, "n", LongType(), required=True),
        NestedField(3, "kafka_offset", LongType(), required=True),
        NestedField(4, "lines", ListType(5, line, element_required=False)),
        NestedField(7, "at", MapType(8, StringType(), 9, LongType(), value_required=True)),
    )
    world.registry.register("orders-value", record(a_field("n"), a_field("at", {"type": "map", "values": "long"})))

    said = refused(world, SPEC, adopt=True)

    assert type(said) is IncompatibleSchemaError
    problem = "required in the table, but optional in records: make the column optional first (DROP NOT NULL)"
    assert re.findall("- (.*)", said.what) == [f"{at}: {problem}" for at in ("id", "n", "lines[].price", "at{}")]
    view = world.lake.load("lake.orders")
    assert view is not None
    assert (view.head, view.properties.get("frazil.unions")) == (None, None)


def test_dead_letters_of_somebody_else_forbid_adoption_as_well(world: World) -> None:
    world.foreign("lake.orders", NestedField(1, "n", LongType()))
    world.foreign("lake.orders__dead_letters", NestedField(1, "n", LongType()))

    assert type(refused(world, SPEC, adopt=True)) is ForeignTableError
    view = world.lake.load("lake.orders")
    assert view is not None
    assert view.head is None


def test_the_latest_schemas_are_compared_one_after_the_other(world: World) -> None:
    both = spec(topics=("orders", "returns"))
    world.topics.facts = {name: TopicFacts(name, None, {}) for name in both.topics}
    world.registry.register("returns-value", record(a_field("n")))
    view = world.make(both)
    world.registry.register("orders-value", record(a_field("n"), a_field("x", "int")))
    world.registry.register("returns-value", record(a_field("n"), a_field("x", "long")))

    state = standing(view, pipeline=both.pipeline).state
    changes = evolution_for(both, view, latest_schemas(world.registry, both), state).evolution.changes

    assert [str(change) for change in changes] == ["add column x: int", "widen x: int to long"]
    assert [column.type.name for column in world.absorb(both).columns if column.name == "x"] == ["long"]  # type: ignore[union-attr]


def test_a_new_table_is_decided_before_it_is_made(world: World) -> None:
    new = new_table(world.lake, world.topics, world.registry, SPEC, writer="w")

    assert (new.state.epoch, new.state.sources[0].partitions[0].next) == (0, 2)
    assert names(new.columns) == names(world.make().columns)


def test_a_new_column_may_not_take_the_name_of_a_partition(world: World) -> None:
    timed = spec(partition_by=("day(kafka_timestamp)", "n"))
    world.make(timed)
    world.registry.register("orders-value", record(a_field("n"), a_field("kafka_timestamp_day")))

    with pytest.raises(IncompatibleSchemaError) as said:
        world.absorb(timed)

    assert said.value.what.endswith(
        "1 finding:\n  - kafka_timestamp_day: a partition field has this name, now or earlier"
    )
    assert only(world.check(timed)).what == said.value.what


@pytest.mark.parametrize("by_others", ["rename", "drop"])
def test_a_column_that_others_take_away_while_the_process_runs_is_there_again(world: World, by_others: str) -> None:
    view, absorbed = world.make(), Absorbed({}, {})
    world.absorb(absorbed=absorbed)
    with world.lake.catalog.load_table(SPEC.identifier).update_schema() as update:
        update.rename_column("n", "number") if by_others == "rename" else update.delete_column("n")

    view = world.absorb(absorbed=absorbed)

    left = {"number"} if by_others == "rename" else set()
    assert {c.name for c in view.columns if not c.name.startswith("kafka_")} == {"n", "at"} | left
    assert absorbed.table_schema == view.schema_json


def test_columns_that_others_take_away_while_the_table_evolves_are_there_again(world: World) -> None:
    """Between the comparison with the first schema and that with the second."""
    world.make()
    absorbed = Absorbed({}, {})
    world.absorb(absorbed=absorbed)
    world.registry.register("orders-value", record(a_field("n"), a_field("more", "string")))
    change_schema = world.lake.change_schema

    def after_a_drop(*args: Any) -> TableView:
        with world.lake.catalog.load_table(SPEC.identifier).update_schema() as update:
            update.delete_column("n")
        world.lake.change_schema = change_schema  # type: ignore[method-assign]
        return change_schema(*args)

    world.lake.change_schema = after_a_drop  # type: ignore[method-assign]

    assert {"n", "at", "more"} <= {column.name for column in world.absorb(absorbed=absorbed).columns}


def test_changes_are_kept_for_the_next_receipt_and_taken_once(world: World) -> None:
    world.make()
    world.registry.register("orders-value", record(a_field("n"), a_field("at", DATE), a_field("note", "string")))
    absorbed = Absorbed({}, {})

    world.absorb(absorbed=absorbed)
    world.absorb(absorbed=absorbed)

    assert absorbed.take_changes() == ("add column note: string",)
    assert absorbed.take_changes() == ()


def test_an_unchanged_table_is_compared_with_a_schema_once(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.make()
    absorbed, compared = Absorbed({}, {}), []
    world.absorb(absorbed=absorbed)
    monkeypatch.setattr(evolve_module, "of_values", lambda spec, schema: compared.append(schema))

    world.absorb(absorbed=absorbed)

    assert compared == []


def test_a_union_of_a_table_is_known_after_it_was_read_again(world: World) -> None:
    a, b, c = ({"type": "record", "name": n, "fields": [a_field(n.lower())]} for n in "ABC")
    world.registry.register("orders-value", record(a_field("u", ["null", a, b]), a_field("r", ["null", c])))
    world.make()
    world.registry.register("orders-value", record(a_field("u", [a, b, "null", c]), a_field("r", ["null", "C"])))

    assert "u" in dict(walk(world.absorb().columns))
    assert "u.C" in dict(walk(world.absorb().columns))

    world.registry.register("orders-value", record(a_field("r", ["null", c, b])))
    with pytest.raises(IncompatibleSchemaError, match="r: is a union of C, B in the writer's schema, the table has a"):
        world.absorb()


def test_a_union_of_an_adopted_table_is_taken_from_what_will_be_written(world: World) -> None:
    a, b = ({"type": "record", "name": n, "fields": [a_field(n.lower())]} for n in "AB")
    branches = StructType(
        NestedField(2, "A", StructType(NestedField(3, "a", LongType(), required=False)), required=False),
        NestedField(4, "B", StructType(NestedField(5, "b", LongType(), required=False)), required=False),
    )
    world.foreign("lake.orders", NestedField(1, "u", branches, required=False))
    world.registry.register("orders-value", record(a_field("u", ["null", a, b])))

    world.make(adopt=True)

    assert {"u", "u.A", "u.B"} <= set(dict(walk(world.absorb().columns)))


# --- the table's own record of the schemas that it has columns for ---------------------------------------------------


@pytest.fixture
def compared(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Ids of the schemas that are compared with the table, in order."""
    ids = list[int]()

    def watched(wanted: TableSpec, schema: RegisteredSchema, accepted: Accepted) -> RequiredColumns:
        ids.append(schema.id)
        return of_values(wanted, schema, accepted)

    monkeypatch.setattr(evolve_module, "of_values", watched)
    return ids


def after_a_batch(world: World, versions: int) -> TableState:
    """The state of a table that has met so many versions of its schema, each with one more column."""
    world.make()
    absorbed = Absorbed({}, {})
    for version in range(1, versions):
        world.registry.register("orders-value", record(a_field("n"), *(a_field(f"c{n}") for n in range(version))))
        view = world.absorb(absorbed=absorbed)
    state = standing(view, pipeline=SPEC.pipeline).state
    ids = tuple(sorted(absorbed.values))
    return replace(state, schema_ids=ids, fitted=fitted(SPEC, view, absorbed.as_writer_schemas()))


def test_a_process_that_meets_versions_one_by_one_compares_each_once(world: World, compared: list[int]) -> None:
    after_a_batch(world, 20)

    assert compared == list(range(2, 21))


def test_a_start_compares_no_schema_that_the_table_has_a_record_of(world: World, compared: list[int]) -> None:
    state = after_a_batch(world, 8)
    compared.clear()
    absorbed = Absorbed({}, {})

    world.absorb(absorbed=absorbed, state=state)

    assert compared == []
    assert sorted(absorbed.values) == list(state.schema_ids)


def test_a_start_from_another_folder_with_another_trigger_compares_none(world: World, compared: list[int]) -> None:
    state = after_a_batch(world, 4)
    compared.clear()
    sooner = replace(SPEC.trigger, rows=SPEC.trigger.rows + 1)

    world.absorb(replace(SPEC, source_file="/another/folder/orders.yaml", trigger=sooner), state=state)

    assert compared == []


def test_a_release_that_maps_schemas_in_another_way_compares_all(
    world: World, compared: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    state = after_a_batch(world, 4)
    compared.clear()
    monkeypatch.setattr(fitted_module, "rules", lambda: "of another release")

    world.absorb(state=state)

    assert sorted(compared) == list(state.schema_ids)


def test_every_line_of_the_code_that_maps_schemas_counts(tmp_path: Path) -> None:
    releases = []
    for name in ("one", "other"):
        package = tmp_path / name
        shutil.copytree(Path(frazil.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__"))
        releases.append(hash_of(package))
    with (package / "formats" / "avro" / "mapping.py").open("a") as mapping:
        mapping.write("# another line\n")

    assert releases[0] == releases[1]
    assert hash_of(package) != releases[1]


def test_a_start_compares_the_ids_that_changed(world: World, compared: list[int]) -> None:
    state = after_a_batch(world, 8)
    world.registry.schemas[3] = replace(world.registry.schemas[3], text=record(a_field("n"), a_field("other")))
    newest = world.registry.register("orders-value", record(a_field("n"), a_field("newest")))
    compared.clear()

    view = world.absorb(state=state)

    assert sorted(compared) == [3, newest.id]
    assert {"other", "newest"} <= set(names(view.columns))


def test_a_start_compares_all_again_when_others_changed_the_table(world: World, compared: list[int]) -> None:
    state = after_a_batch(world, 8)
    with world.lake.catalog.load_table(SPEC.identifier).update_schema() as update:
        update.delete_column("c3")
    compared.clear()

    view = world.absorb(state=state)

    assert "c3" in names(view.columns)
    assert set(compared) == set(state.schema_ids)


def test_a_start_compares_all_again_for_a_changed_spec(world: World, compared: list[int]) -> None:
    state = after_a_batch(world, 3)
    compared.clear()

    world.absorb(spec(on_tombstone="skip"), state=state)

    assert sorted(compared) == list(state.schema_ids)


@pytest.mark.parametrize("table", [SPEC.identifier, SPEC.dead_letters_identifier])
def test_a_table_that_was_upgraded_to_iceberg_v3_is_refused_and_readable(
    world: World, tmp_path: Path, table: str
) -> None:
    world.make()
    metadata = Path(world.lake.catalog.load_table(table).metadata_location.removeprefix("file://"))
    metadata.write_text(json.dumps({**json.loads(metadata.read_text()), "format-version": 3, "next-row-id": 0}))
    world.lake = IcebergLake(CatalogSettings("jdbc", str(tmp_path / "warehouse")))  # the first one caches metadata

    said = refused(world, SPEC)

    assert type(said) is FormatVersionError
    assert said.what.startswith(f"the table {table} has Iceberg format version 3, expected 2")
    view = world.lake.load(SPEC.identifier)
    assert view is not None
    assert standing(view, pipeline=SPEC.pipeline).state.epoch == 0
    if table == SPEC.identifier:
        assert only(world.check(SPEC)).what == said.what
