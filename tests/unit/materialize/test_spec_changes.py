"""Every key of a spec that is changed after the table was made: applied, refused, or named as needing a rebuild."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField
from values_of_tables import NOW, topic, view

from frazil.adapters.iceberg.lake import IcebergLake
from frazil.materialize.changed_spec.applied_spec import (
    ADDED_LATER,
    SPEC_PROPERTY,
    AppliedSpec,
    applied_by,
    applied_spec_of,
    as_applied,
    spec_property,
)
from frazil.materialize.changed_spec.spec_changes import RULES, refused_changes, spec_changes
from frazil.materialize.clients import STEPS, Clients
from frazil.materialize.pause.pausing import PAUSED_PROPERTY
from frazil.materialize.preview.batch import Facts, preview_batch
from frazil.materialize.preview.explain import explain, lines
from frazil.materialize.preview.preflight import problems
from frazil.materialize.run import TableRun
from frazil.materialize.sources import latest_schemas
from frazil.model.change_events import ChangeEvents
from frazil.model.errors import (
    BrokerError,
    ForeignOwnerError,
    ForeignTableError,
    FrazilError,
    IncompatibleSchemaError,
    PausedError,
    SourceChangedError,
    SpecChangeError,
)
from frazil.model.outputs import OutputSpec
from frazil.model.plan import BatchPlan, Halt, PartitionFacts, TopicFacts
from frazil.model.policies import Policies, Policy
from frazil.model.routes import Group, HeaderCondition, Route
from frazil.model.settings import CatalogSettings, RegistrySettings
from frazil.model.snapshot import TableView
from frazil.model.spec import FormatSettings, Maintain, TableSpec
from frazil.model.spec_change import Fate
from frazil.specs.describe import section_of, walk_keys
from frazil.specs.load import load_tables
from frazil.specs.table_section import TABLE_SECTION
from tests.fakes.clients_in_memory import RegistryInMemory, TopicsInMemory, a_field, record
from tests.fakes.connect_samples import avro_schema
from tests.fakes.debezium_samples import POSTGRES

TIME = {"type": "int", "logicalType": "time-millis"}
KEYS = dict(walk_keys(TABLE_SECTION))
OF_PARTS = ("routes[]", "shapes[]", "outputs[]")
"""The beginnings of the keys of a route, a shape or an output: keys of its table, or parts of these keys."""
LEAVES = {
    path.partition(".<name>")[0]
    for path, key in KEYS.items()
    if section_of(key.shape) is None and not path.startswith(OF_PARTS)
}


@dataclass(frozen=True)
class Example:
    """A key before and after: lines of a spec, the rule's key, its fate, and words in `how`."""

    before: str
    after: str
    fate: Fate
    key: str
    says: str


def applied(key: str, before: str, after: str, says: str = "from the next") -> Example:
    return Example(before, after, Fate.APPLIED, key, says)


def refused(key: str, before: str, after: str, says: str) -> Example:
    return Example(before, after, Fate.REFUSED, key, says)


def kept(key: str, before: str, after: str) -> Example:
    wanted = (f"maintain: {{keep_snapshots: {{{key}: {value}}}}}" for value in (before, after))
    return applied(f"maintain.keep_snapshots.{key}", *wanted)


ORDERED = "order_by: kafka_timestamp"
UNKEYED = "metadata: {keep: [timestamp]}"
FIRST_OF_EACH = "write: deduplicate\nkey: string"
CHANGE_EVENTS = "write: upsert\ncdc: debezium"
BY_POSITION = f"{CHANGE_EVENTS}\ncdc_order: source\ncdc_connector: postgresql"
DECLARED = "value: json\nfields: {id: long}"
ORDER = 'syntax = "proto3"; package shop; message Order { int64 n = 1; }'
OLD_ORDER = "existing files keep the order of their rows"
OLD_FILES = "existing files keep their partitioning"
JSON_KEYS = "key: json_schema\nkey_subject: {name: j}"
DAILY = "partition_by: [day(kafka_timestamp)]"
EXAMPLES: dict[str, list[Example]] = {
    "key": [
        refused("key", "key: string", "key: bytes", "kafka_key is string"),
        refused("key", "key: bytes", "key: avro", "kafka_key is binary"),
        applied("key", "key: none", "key: string"),
        applied("key", "key: string", "key: json", "existing rows keep their key"),
        applied("key", "key: string", "key: none", "existing rows keep their key"),
        refused("key", "write: upsert\nkey: string", "write: upsert\nkey: json", "is the identity of the table's rows"),
    ],
    "order_by": [
        refused("order_by", "write: upsert", f"write: upsert\n{ORDERED}", "replaced or valid by their current order"),
        refused("order_by", f"write: upsert\n{ORDERED}", "write: upsert", "replaced or valid by their current order"),
    ],
    "delete_memory": [
        applied("delete_memory", f"write: upsert\n{ORDERED}", f"write: upsert\n{ORDERED}\ndelete_memory: 30d"),
    ],
    "identity": [
        refused("identity", FIRST_OF_EACH, f"{FIRST_OF_EACH}\nidentity: [n]", "would have another one"),
        refused("identity", f"{FIRST_OF_EACH}\nidentity: [n]", FIRST_OF_EACH, "would have another one"),
    ],
    "write": [
        refused("write", "write: append", "write: upsert", "existing rows were written in the current mode"),
        refused("write", "write: upsert", "write: append", "existing rows were written in the current mode"),
    ],
    "cdc": [refused("cdc", "write: upsert", CHANGE_EVENTS, "made of records that were read otherwise")],
    "cdc_deletes": [refused("cdc_deletes", CHANGE_EVENTS, f"{CHANGE_EVENTS}\ncdc_deletes: soft", "would be missing")],
    "cdc_keep": [
        refused("cdc_keep", CHANGE_EVENTS, f"{CHANGE_EVENTS}\ncdc_keep: [source.lsn]", "made without these columns")
    ],
    "cdc_order": [refused("cdc_order", CHANGE_EVENTS, BY_POSITION, "kept or replaced by their current order")],
    "cdc_connector": [
        refused("cdc_connector", BY_POSITION, BY_POSITION.replace("postgresql", "mysql"), "which change is newer"),
    ],
    "cdc_placeholder": [applied("cdc_placeholder", CHANGE_EVENTS, f"{CHANGE_EVENTS}\ncdc_placeholder: x")],
    "value": [refused("value", "value: avro", "value: string", "columns were made for values of its current format")],
    "wire_format": [
        refused("wire_format", "wire_format: confluent", "wire_format: confluent_headers", "of its current wire format")
    ],
    "on_incompatible_schema": [
        applied("on_incompatible_schema", "on_incompatible_schema: pause", "on_incompatible_schema: dead_letter"),
    ],
    "evolution": [applied("evolution", "evolution: lenient", "evolution: strict", "for schemas that are met")],
    "fields": [
        applied("fields", "value: json", DECLARED, "no row has a value that was read otherwise"),
        applied("fields", DECLARED, "value: json"),
        applied("fields", DECLARED, f"{DECLARED[:-1]}, m: int}}"),
        applied("fields", DECLARED, "value: json\nfields: {id: string}"),
        refused(
            "fields",
            f"{DECLARED}\npartition_by: ['bucket(8, id)']",
            "value: json\nfields: {id: string}\npartition_by: ['bucket(8, id)']",
            "the table is partitioned by id",
        ),
        refused(
            "fields",
            f"{DECLARED}\nsort_by: ['bucket(8, id)']",
            "value: json\nfields: {id: string}\nsort_by: ['bucket(8, id)']",
            "the table is sorted by id",
        ),
    ],
    "columns": [
        refused("columns", UNKEYED, f"{UNKEYED}\ncolumns: {{n: {{mask: hash}}}}", "existing rows keep the masks"),
        refused("columns", f"{UNKEYED}\ncolumns: {{n: {{mask: redact}}}}", UNKEYED, "existing rows keep the masks"),
    ],
    "tags": [refused("tags", UNKEYED, f"{UNKEYED}\ntags: {{PII: {{mask: redact}}}}", "existing rows keep the masks")],
    "partition_by": [
        applied("partition_by", "partition_by: []", "partition_by: [day(kafka_timestamp)]", OLD_FILES),
        applied("partition_by", "partition_by: [bucket(8, n)]", "partition_by: [bucket(16, n)]", OLD_FILES),
        applied("partition_by", "partition_by: [n, day(kafka_timestamp)]", "partition_by: [n]", OLD_FILES),
        refused(
            "partition_by", "partition_by: []", "partition_by: [day(n)]", "cannot partition by a column of type long"
        ),
    ],
    "sort_by": [
        applied("sort_by", "", "sort_by: [n, kafka_offset desc]", OLD_ORDER),
        applied("sort_by", "sort_by: [n]", "sort_by: [n desc]", OLD_ORDER),
        applied("sort_by", "sort_by: [n, kafka_offset]", "sort_by: [kafka_offset, n]", OLD_ORDER),
        applied("sort_by", "sort_by: [n]", "sort_by: []", OLD_ORDER),
        refused("sort_by", "", "sort_by: [day(n)]", "cannot sort by a column of type long"),
        refused(
            "sort_by", "metadata: {keep: [headers]}", "metadata: {keep: [headers]}\nsort_by: [nowhere]", "not have"
        ),
    ],
    "readers": [
        applied("readers", "readers: [duckdb]", "readers: [athena]"),
        refused("readers", "readers: [duckdb]", "readers: [spark]", "opens: is a time, which Spark cannot read"),
    ],
    "on_bad_record": [applied("on_bad_record", "on_bad_record: skip", "on_bad_record: stop")],
    "bad_record_limit.share": [
        applied("bad_record_limit", "bad_record_limit: off", "bad_record_limit: {share: 7%}"),
        applied("bad_record_limit", "bad_record_limit: {share: 8%}", "bad_record_limit: {share: 7%}"),
    ],
    "bad_record_limit.at_least": [
        applied("bad_record_limit", "bad_record_limit: {at_least: 7}", "bad_record_limit: {at_least: 8}")
    ],
    "on_tombstone": [applied("on_tombstone", "on_tombstone: row", "on_tombstone: skip")],
    "trigger.every": [applied("trigger.every", "trigger: {every: 5s}", "trigger: {every: 6s}")],
    "trigger.rows": [applied("trigger.rows", "trigger: {rows: 5}", "trigger: {rows: 6}")],
    "trigger.bytes": [applied("trigger.bytes", "trigger: {bytes: 5MB}", "trigger: {bytes: 6MB}")],
    "maintain.target_file": [
        applied("maintain.target_file", "maintain: {target_file: 5MB}", "maintain: {target_file: 6MB}")
    ],
    "maintain.keep_snapshots.age": [kept("age", "5h", "6h")],
    "maintain.keep_snapshots.count": [kept("count", "5", "6")],
    "maintain.keep_snapshots.daily": [kept("daily", "0", "1")],
    "maintain.keep_dead_letters": [
        applied("maintain.keep_dead_letters", "", "maintain: {keep_dead_letters: 90d}", "for all dead letters"),
        applied("maintain.keep_dead_letters", "maintain: {keep_dead_letters: 90d}", "", "for all dead letters"),
    ],
    "maintain.retain_rows": [
        applied("maintain.retain_rows", DAILY, f"{DAILY}\nmaintain: {{retain_rows: 30d}}", "for all rows")
    ],
    "maintain.rewrite_deleted": [
        applied("maintain.rewrite_deleted", "", "maintain: {rewrite_deleted: 30%}"),
    ],
    "maintain.z_order": [
        applied("maintain.z_order", "", "maintain: {z_order: [n, kafka_offset]}", "written again from now on"),
        applied("maintain.z_order", "maintain: {z_order: [n, kafka_offset]}", "", "written again from now on"),
        refused("maintain.z_order", "", "maintain: {z_order: [n, nowhere]}", "does not have"),
    ],
    "formats": [
        applied("formats", "formats: [iceberg]", "formats: [iceberg, delta]", "creates the Delta log"),
        applied("formats", "formats: [iceberg, delta]", "formats: [iceberg]", "delete the table's folder _delta_log/"),
    ],
    "start.timestamp": [
        Example("", "start: {timestamp: 2026-01-01T00:00:00Z}", Fate.REBUILD, "start", "continues from its offsets"),
        Example("", "start: latest", Fate.REBUILD, "start", "continues from its offsets"),
    ],
    "start.offsets": [Example("", "start: {offsets: {0: 3}}", Fate.REBUILD, "start", "run `frazil rebuild")],
    "metadata.prefix": [
        applied("metadata.prefix", "", "metadata: {prefix: meta_}", "5 columns renamed"),
        refused("metadata.prefix", "", "metadata: {prefix: taken_}", "the table already has a column taken_offset"),
    ],
    "metadata.keep": [
        applied(
            "metadata.keep", "", "metadata: {keep: [timestamp, headers]}", "kafka_headers is null in existing rows"
        ),
        refused(
            "metadata.keep", "metadata: {prefix: x_}", "metadata: {prefix: x_, keep: [timestamp, value]}", "x_value"
        ),
    ],
    "subject.name": [applied("subject", "subject: topic", "subject: {name: orders-value}")],
    "outputs": [
        applied("outputs", "", "outputs: [{topic: orders.clean}]", "from now on"),
        applied("outputs", "outputs: [{topic: orders.clean}]", "", "from now on"),
    ],
    "string_formats": [
        refused("string_formats", JSON_KEYS, f"{JSON_KEYS}\nstring_formats: text", "its current setting")
    ],
    "message": [
        applied("message", "value: protobuf", "value: protobuf\nmessage: shop.Order", "existing rows of another")
    ],
    "key_message": [
        applied("key_message", "key: protobuf", "key: protobuf\nkey_message: shop.Order", "from the next batch")
    ],
    "key_subject.name": [applied("key_subject", "key: avro\nkey_subject: topic", "key: avro\nkey_subject: {name: k}")],
}
ROUTED = "table: events\nroutes:\n- {table: orders, schema: shop.Order}"
SHAPED = "table: events\nshapes:\n- {table: orders}"
EXAMPLES["shapes"] = [
    refused("shapes", SHAPED, ROUTED, "have each record from the start on"),
]
EXAMPLES["routes"] = [
    applied("routes", ROUTED, "table: events\nroutes:\n- {table: orders, header: {type: order}}"),
]
SAME_TABLE = ["topic", "topics", "table", "database"]
"""Those that say which table it is: see the tests of another topic and of another name."""


def test_every_key_of_a_spec_has_a_rule_and_an_example() -> None:
    without_rule = [leaf for leaf in LEAVES if not {leaf, leaf.partition(".")[0]} & set(RULES)]
    assert without_rule == [], "say in changed_spec/spec_changes.py what a change of this key means"
    assert sorted(LEAVES) == sorted([*EXAMPLES, *SAME_TABLE])


GROUP = Group("lake", "orders", (Route("orders", "shop.Order"), Route("refunds", None, (HeaderCondition("a", "b"),))))


@pytest.mark.parametrize(
    ("after", "fate", "how"),
    [
        (GROUP.routes[:1], Fate.APPLIED, "existing rows stay in their tables"),
        ((GROUP.routes[0], Route("refunds", "shop.Refund")), Fate.APPLIED, "from the next batch on"),
        (GROUP.routes[::-1], Fate.REFUSED, "holds the state of the group, so orders stays first"),
        (None, Fate.REFUSED, "a table cannot leave its group, because"),
    ],
)
def test_routes_change_but_for_the_first_table(
    after: tuple[Route, ...] | None, fate: Fate, how: str, world: World
) -> None:
    spec = replace(world.spec(""), group=GROUP, partition_by=())
    made = replace(view(), properties=spec_property(applied_by(spec)))
    changed = replace(spec, group=None if after is None else replace(GROUP, routes=after))

    (change,) = spec_changes(changed, made)

    assert (change.key, change.fate) == ("routes", fate)
    assert how in change.how
    assert "orders" in change.table_has
    assert spec_changes(spec, made) == ()


class NoTasks:
    """The batch ends where its plan would be carried out."""

    parallelism = 1

    def start(self) -> None: ...

    def run(self, tasks: Any, *, name: str) -> list[Any]:
        raise BrokerError(f"{name}: {len(tasks)} tasks", hint="")

    def stop(self) -> None: ...


@dataclass
class World:
    folder: Path
    lake: IcebergLake
    registry: RegistryInMemory
    topics: TopicsInMemory

    def spec(self, text: str) -> TableSpec:
        named = text if text.startswith("topic") else f"topic: orders\n{text}"
        folder = self.folder / "tables"
        folder.mkdir(exist_ok=True)
        (folder / "orders.yaml").write_text(named)
        (spec,) = load_tables(folder, {}, database="lake", catalog_type="jdbc")
        return spec

    def run(self, spec: TableSpec) -> TableRun:
        clients = Clients(
            lake=self.lake,
            topics=self.topics,
            registry=self.registry,
            runner=NoTasks(),
            kafka={},
            registry_settings=RegistrySettings("http://127.0.0.1:1"),
            now=lambda: NOW,
            new_id=lambda: "id",
            on_receipt=lambda receipt: None,
            observe=lambda when, step: None,
            delta_logs=lambda: cast(Any, None),
        )
        return TableRun(spec, clients, writer="w")

    def make(self, spec: TableSpec) -> None:
        self.run(spec)._made_ready()

    def check(self, spec: TableSpec) -> list[FrazilError]:
        return list(problems([spec], lake=self.lake, topics=self.topics, registry=self.registry))

    def view(self, spec: TableSpec) -> TableView:
        view = self.lake.load(spec.identifier)
        assert view is not None
        return view


@pytest.fixture
def world(tmp_path: Path) -> World:
    registry = RegistryInMemory()
    fields = [a_field("n"), a_field("taken_offset"), a_field("x_value", "bytes")]
    registry.register("orders-value", record(*fields))
    registry.register("orders-key", '"string"')
    registry.subjects["k"] = 2
    registry.register("j", '{"type": "string", "format": "date"}', schema_format="JSON")
    lake = IcebergLake(CatalogSettings("jdbc", str(tmp_path / "warehouse")))
    return World(tmp_path, lake, registry, TopicsInMemory({"orders": topic({0: (2, 9)})}))


def test_a_delta_log_that_another_prefix_withholds_is_not_announced_for_the_next_run(world: World) -> None:
    world.make(world.spec(""))

    both = world.spec("formats: [iceberg, delta]\nmetadata: {prefix: meta_}")

    found = {each.key: each.how for each in explain(world.run(both)).spec_changes}
    assert found["formats"] == (
        "the Delta log is created once older files are compacted, because metadata.prefix renames columns"
    )
    assert found["metadata.prefix"].endswith("; the Delta log waits until older files are compacted")


@pytest.mark.parametrize(
    ("record", "problem"),
    [
        ({"keys": {}, "sometimes_kept": []}, "lacks the key "),
        ({"sometimes_kept": []}, "cannot be parsed (KeyError: 'keys')"),
        ("not JSON", "cannot be parsed (JSONDecodeError: "),
    ],
    ids=["a key", "all keys", "no JSON"],
)
def test_a_record_of_the_spec_that_lacks_a_part_is_named_with_a_way_out(
    world: World, record: object, problem: str
) -> None:
    spec = world.spec("")
    world.make(spec)
    text = record if isinstance(record, str) else json.dumps(record)
    world.lake.set_properties(spec.identifier, put={SPEC_PROPERTY: text})

    with pytest.raises(SpecChangeError) as said:
        world.run(spec).batch()

    start = "lake.orders: the table's record of the spec that it follows, its property frazil.spec, "
    assert said.value.what.startswith(start + problem)
    assert "remove the property: the next run records the spec again" in said.value.hint
    assert world.check(spec), "check finds it too"


def test_a_record_that_lacks_a_key_names_it(world: World) -> None:
    spec = world.spec("")
    world.make(spec)
    value = json.loads(world.view(spec).properties[SPEC_PROPERTY])
    del value["keys"]["metadata.keep"]
    world.lake.set_properties(spec.identifier, put={SPEC_PROPERTY: json.dumps(value)})

    with pytest.raises(SpecChangeError, match=r"lacks the key metadata\.keep"):
        world.run(spec).batch()


def test_the_share_of_bad_records_is_shown_in_percent(world: World) -> None:
    before, after = world.spec("bad_record_limit: {share: 0.5%}"), world.spec("bad_record_limit: off")
    world.make(before)

    (change,) = explain(world.run(after)).spec_changes

    assert (change.table_has, change.spec_says) == ("0.5% and at least 100", "off")


CASES = [pytest.param(each, id=f"{path}-{n}") for path, found in EXAMPLES.items() for n, each in enumerate(found)]


@pytest.mark.parametrize(("before", "after"), [(CHANGE_EVENTS, BY_POSITION), (BY_POSITION, CHANGE_EVENTS)])
def test_a_connector_that_comes_or_goes_with_the_order_is_said_once(world: World, before: str, after: str) -> None:
    world.registry.register("orders-value", avro_schema(POSTGRES))
    world.make(world.spec(before))

    found = explain(world.run(world.spec(after))).spec_changes

    assert [change.key for change in found if change.key.startswith("cdc")] == ["cdc_order"]


@pytest.mark.parametrize("example", CASES)
def test_a_changed_key_has_one_fate_in_explain_check_and_materialize(world: World, example: Example) -> None:
    before, after = world.spec(example.before), world.spec(example.after)
    if after.readers == ("spark",):
        world.registry.register("orders-value", record(a_field("n"), a_field("opens", TIME)))
    for part, word in (("value", after.value), ("key", after.key)):
        if word == "protobuf":
            world.registry.register(f"orders-{part}", ORDER, schema_format="PROTOBUF")
    if before.cdc != "none":
        world.registry.register("orders-value", avro_schema(POSTGRES))
    world.make(before)
    if after.readers == ("spark",):
        world.registry.register("orders-value", record(a_field("n")))

    explained = explain(world.run(after))

    (change,) = [each for each in explained.spec_changes if each.key == example.key]
    assert (change.fate, example.says in change.how) == (example.fate, True), change
    assert f"  spec: {change}" in list(lines(explained))
    if example.fate is Fate.REFUSED:
        assert isinstance(explained.plan, Halt)
        unchanged = world.view(after)
        with pytest.raises(SpecChangeError) as said:
            world.run(after).batch()
        with pytest.raises(SpecChangeError, match=re.escape(said.value.what)):
            world.run(after).create()
        assert said.value.exit_status == 1
        assert said.value.what == explained.plan.error.what
        assert said.value.what in [found.what for found in world.check(after)]
        assert world.view(after) == unchanged
    else:
        assert isinstance(explained.plan, BatchPlan)
        with pytest.raises(BrokerError, match="tasks"):
            world.run(after).batch()
        left = explain(world.run(after)).spec_changes
        assert [each.fate for each in left] == ([Fate.REBUILD] if example.fate is Fate.REBUILD else [])
        assert world.check(after) == []


def with_returns(world: World, text: str, *, start: str = "earliest") -> TableSpec:
    world.topics.facts = {**world.topics.facts, "returns": TopicFacts("returns", None, {0: PartitionFacts(1, 3)})}
    return world.spec(f"{text}\ntable: orders\nsubject: {{name: orders-value}}\nstart: {start}")


@pytest.mark.parametrize(("start", "begins"), [("earliest", 1), ("latest", 3)])
def test_a_topic_that_is_added_is_explained_and_begins_as_the_spec_says(world: World, start: str, begins: int) -> None:
    world.make(with_returns(world, "topic: orders"))
    both = with_returns(world, "topics: [orders, returns]", start=start)

    explained = explain(world.run(both))

    told = {each.key: each for each in explained.spec_changes}
    assert told["topics"].fate is Fate.APPLIED
    assert told["topics"].how == ("topic returns: added, from where `start` points or where an earlier batch ended")
    assert told["metadata.keep"].how == "kafka_topic is null in existing rows"
    assert f"    returns is added to the table; its partitions begin: 0 at {begins}" in list(lines(explained))
    assert world.check(both) == []
    assert isinstance(explained.plan, BatchPlan)
    assert (explained.plan.begins, explained.plan.state.topic_of_unnamed_rows) == (("returns",), "orders")


def test_a_topic_that_is_removed_is_explained_and_its_column_stays(world: World) -> None:
    both = with_returns(world, "topics: [orders, returns]")
    world.make(both)
    one = with_returns(world, "topic: orders")

    explained = explain(world.run(one))

    (told,) = explained.spec_changes
    assert (told.key, told.fate) == ("topics", Fate.APPLIED)
    assert told.how == "topic returns: not read any more; rows and offsets stay and are proven"
    assert isinstance(explained.plan, BatchPlan)
    assert {each.topic for each in explained.plan.ranges} == {"orders"}
    assert [source.topic for source in explained.plan.state.sources] == ["orders", "returns"]
    world.make(one)
    recorded = applied_spec_of(world.view(one).properties, table="lake.orders")
    assert recorded is not None
    assert recorded.keep[0] == "topic"


def test_a_table_of_other_topics_is_refused_in_one_way(world: World) -> None:
    world.make(world.spec(""))
    other = with_returns(world, "topic: returns")

    said = []
    for act in (lambda: explain(world.run(other)), lambda: world.run(other).batch()):
        with pytest.raises(ForeignOwnerError) as error:
            act()
        said.append(error.value.what)

    assert set(said) == {each.what for each in world.check(other) if isinstance(each, ForeignOwnerError)} & set(said)
    assert len(set(said)) == 1


@pytest.mark.parametrize("text", ["table: others", "database: other"])
def test_another_name_is_another_table(world: World, text: str) -> None:
    world.make(world.spec(""))

    explained = explain(world.run(world.spec(text)))

    assert explained.spec_changes == ()
    assert explained.new_columns


def test_a_spec_that_did_not_change_has_no_differences(world: World) -> None:
    spec = world.spec("partition_by: [bucket(8, n), n, truncate(4, kafka_key), day(kafka_timestamp)]")
    world.make(spec)

    assert explain(world.run(spec)).spec_changes == ()


def test_a_key_cannot_take_the_column_of_a_field_and_the_table_goes_on_without_it(world: World) -> None:
    world.registry.register("orders-value", record(a_field("n"), a_field("kafka_key", "bytes")))
    without, with_key = world.spec("key: none"), world.spec("key: bytes")
    world.make(without)
    with pytest.raises(BrokerError, match="tasks"):
        world.run(without).batch()

    with pytest.raises(SpecChangeError, match="a field of the records has the column kafka_key"):
        world.run(with_key).batch()
    with pytest.raises(BrokerError, match="tasks"):
        world.run(without).batch()


def recorded_as(view: TableView, spec: TableSpec, **keys: str | None) -> TableView:
    """The table as if its record had these values, and none for those that are None."""
    had = {**applied_by(spec).keys, **keys}
    record = AppliedSpec({key: text for key, text in had.items() if text is not None})
    return replace(view, properties={**view.properties, **spec_property(record)})


@pytest.mark.parametrize(
    ("key", "other", "fate"),
    [
        ("value", "xml", Fate.REFUSED),
        ("write", "upsert", Fate.REFUSED),
        ("on_incompatible_schema", "dead_letter", Fate.APPLIED),
    ],
)
def test_a_value_of_another_release_has_a_fate_all_the_same(world: World, key: str, other: str, fate: Fate) -> None:
    spec = world.spec("")
    world.make(spec)

    view = recorded_as(world.view(spec), spec, **{key: other})
    changes = spec_changes(spec, view)

    assert [(each.key, each.table_has, each.fate) for each in changes] == [(key, other, fate)]
    assert len(refused_changes(spec, changes)) == (fate is Fate.REFUSED)
    assert getattr(as_applied(spec, view.properties), key) == (other if fate is Fate.REFUSED else getattr(spec, key))


SETTINGS_OF_FORMATS: dict[str, Any] = {
    "string_formats": {"value_settings": FormatSettings(string_formats=cast(Any, "other"))},
    "fields": {"value_settings": FormatSettings(fields='{"id": "long"}')},
    "message": {"value_settings": FormatSettings(message="other")},
    "columns": {"policies": Policies(columns=(("n", Policy("redact")),))},
    "tags": {"policies": Policies(tags=(("PII", Policy("redact")),))},
    "sort_by": {"sort_by": ("n",)},
    "delete_memory": {"delete_memory": timedelta(days=30)},
    "maintain.keep_dead_letters": {"maintain": Maintain(512_000_000, keep_dead_letters=timedelta(days=90))},
    "maintain.retain_rows": {"maintain": Maintain(512_000_000, retain_rows=timedelta(days=30))},
    "maintain.rewrite_deleted": {"maintain": Maintain(512_000_000, rewrite_deleted=0.3)},
    "maintain.z_order": {"maintain": Maintain(512_000_000, z_order=("n", "kafka_offset"))},
    "key_message": {"key_settings": FormatSettings(message="other")},
    "routes": {"group": GROUP},
    "shapes": {"group": replace(GROUP, routes=(Route("orders"),))},
    "cdc": {"value_settings": FormatSettings(change_events=ChangeEvents())},
    "outputs": {"outputs": (OutputSpec("orders.clean", "clean"),)},
}


@pytest.mark.parametrize("key", [key for key in ADDED_LATER if not key.startswith("cdc_")])
def test_a_key_that_a_record_lacks_has_the_value_of_its_tables_and_not_the_specs(world: World, key: str) -> None:
    spec = world.spec("")
    world.make(spec)
    older = recorded_as(world.view(spec), spec, **{key: None})

    assert spec_changes(spec, older) == ()
    other = cast(Any, replace)(spec, **SETTINGS_OF_FORMATS.get(key, {key: "other"}))
    found = [(each.key, each.table_has) for each in spec_changes(other, older)]
    assert found == [(key, ADDED_LATER[key] or "none")]


def test_the_tables_setting_of_text_formats_is_the_one_that_reads_it(world: World) -> None:
    before = world.spec(f"{JSON_KEYS}\nstring_formats: text")
    world.make(before)

    reading = as_applied(world.spec(JSON_KEYS), world.view(before).properties)

    assert (reading.value_settings, reading.key_settings) == (before.value_settings, before.key_settings)
    assert reading.key_settings.string_formats == "text"


def test_the_spec_that_the_first_release_recorded_is_followed_for_ever(world: World) -> None:
    """Never to be changed: users' tables hold it. A key that is added to `TEXTS` goes into `ADDED_LATER` too."""
    recorded = (Path(__file__).parent / "stored" / "spec-1.json").read_text()
    spec = world.spec("")
    world.make(spec)
    view = world.view(spec)
    first = replace(view, properties={**view.properties, SPEC_PROPERTY: recorded})

    assert spec_changes(spec, first) == ()
    assert as_applied(spec, first.properties) == spec
    assert applied_by(spec, applied_spec_of(first.properties, table=spec.identifier)) == applied_by(spec)


def test_a_column_may_be_partitioned_by_in_the_batch_that_brings_it(world: World) -> None:
    world.make(world.spec(""))
    world.registry.register("orders-value", record(a_field("n"), a_field("region", "string")))
    after = world.spec("partition_by: [region]")

    explained = explain(world.run(after))
    with pytest.raises(BrokerError, match="tasks"):
        world.run(after).batch()

    assert isinstance(explained.plan, BatchPlan)
    assert world.view(after).partition_fields == ("region",)


def test_a_column_may_be_sorted_by_in_the_batch_that_brings_it_and_the_order_follows_renames(world: World) -> None:
    world.make(world.spec(""))
    world.registry.register("orders-value", record(a_field("n"), a_field("region", "string")))
    after = world.spec("sort_by: [region, kafka_offset desc]")

    assert isinstance(explain(world.run(after)).plan, BatchPlan)
    world.run(after).create()
    assert world.view(after).sort_fields == ("region", "kafka_offset desc")

    renamed = world.spec("sort_by: [region, m_offset desc]\nmetadata: {prefix: m_}")
    assert [change.key for change in spec_changes(renamed, world.view(after))] == ["metadata.prefix"]
    world.run(renamed).create()
    assert world.view(renamed).sort_fields == renamed.sort_by
    world.registry.register("orders-value", record(a_field("n"), {**a_field("area", "string"), "aliases": ["region"]}))
    world.run(renamed).create()
    assert world.view(renamed).sort_fields == ("area", "m_offset desc")
    assert [(each.key, each.fate) for each in explain(world.run(renamed)).spec_changes] == [("sort_by", Fate.REBUILD)]
    assert explain(world.run(replace(renamed, sort_by=("area", "m_offset desc")))).spec_changes == ()


def test_a_table_sorted_by_another_writer_keeps_its_order(world: World) -> None:
    spec = world.spec("")
    world.make(spec)
    world.lake.change_schema(world.view(spec), (), {}, sort_by=("n desc nulls first",))

    world.run(spec).create()
    (change,) = spec_changes(spec, world.view(spec))

    assert (change.key, change.fate, change.table_has) == ("sort_by", Fate.REBUILD, "n desc nulls first")
    assert world.view(spec).sort_fields == ("n desc nulls first",)


def test_making_tables_only_brings_one_that_exists_to_its_spec(world: World) -> None:
    world.make(world.spec(""))
    world.registry.register("orders-value", record(a_field("n"), a_field("region", "string")))
    after = world.spec("partition_by: [region]\nmetadata: {prefix: m_}")

    world.run(after).create()

    assert explain(world.run(after)).spec_changes == ()
    assert world.view(after).partition_fields == ("region",)
    assert "m_offset" in {column.name for column in world.view(after).columns}


def test_partitionings_that_come_and_go_keep_their_fields_apart(world: World) -> None:
    said = ["[bucket(8, n)]", "[bucket(16, n)]", "[bucket(8, n)]", "[]", "[bucket(16, n), day(kafka_timestamp)]"]
    specs = [world.spec(f"partition_by: {each}") for each in said]
    world.make(specs[0])
    for spec in specs[1:]:
        with pytest.raises(BrokerError, match="tasks"):
            world.run(spec).batch()
        assert world.view(spec).partition_fields == spec.partition_by

    fields = [field for spec in world.view(specs[0]).current.metadata.partition_specs for field in spec.fields]
    by_name = {(field.name, field.field_id, str(field.transform)) for field in fields}

    assert len({name for name, _, _ in by_name}) == len({number for _, number, _ in by_name}) == len(by_name) == 3


def test_materialize_explain_and_check_meet_what_is_in_the_way_in_one_order(world: World) -> None:
    spec, other_key = world.spec(""), world.spec("key: bytes")
    world.make(spec)
    catalog, dead_letters = world.lake.catalog, spec.dead_letters_identifier
    catalog.drop_table(dead_letters)
    catalog.create_table(dead_letters, Schema(NestedField(1, "n", LongType())))
    world.registry.register("orders-value", record(a_field("n", "string")))
    world.topics.facts = {"orders": topic({0: (0, 1)})}

    met = [first_in_the_way(world, other_key)]
    catalog.drop_table(dead_letters)
    met.append(first_in_the_way(world, other_key))
    met.append(first_in_the_way(world, spec))
    world.registry.register("orders-value", record(a_field("n")))
    world.lake.set_properties(spec.identifier, put={}, remove=(PAUSED_PROPERTY,))
    met.append(first_in_the_way(world, spec))

    assert met == [ForeignTableError, SpecChangeError, IncompatibleSchemaError, SourceChangedError]


def test_each_obstacle_names_the_step_that_meets_it(world: World) -> None:
    spec, other_key = world.spec(""), world.spec("key: bytes")
    world.make(spec)
    world.registry.register("orders-value", record(a_field("n", "string")))
    latest = latest_schemas(world.registry, spec).by_id()

    def steps(wanted: TableSpec) -> list[str]:
        view, dead_letters = (world.lake.load(name) for name in (wanted.identifier, wanted.dead_letters_identifier))
        facts = Facts(wanted, view, dead_letters, [world.topics.facts["orders"]], latest)
        return [obstacle.step for obstacle in preview_batch(facts).obstacles]

    assert steps(other_key) == ["follow_spec"]
    assert steps(spec) == ["evolve"]


def first_in_the_way(world: World, spec: TableSpec) -> type[FrazilError]:
    explained, checked = explain(world.run(spec)), world.check(spec)
    with pytest.raises(FrazilError) as said:
        world.run(spec).batch()

    assert isinstance(explained.plan, Halt)
    assert explained.plan.error.what == checked[0].what == said.value.what
    return type(said.value)


def test_the_steps_of_a_batch_come_in_their_order_and_a_paused_table_is_only_looked_at(world: World) -> None:
    spec, seen = world.spec(""), list[str]()
    run = world.run(spec)
    run.clients = replace(run.clients, observe=lambda when, step: seen.append(step) if when == "before" else None)

    with pytest.raises(BrokerError, match="tasks"):
        run.batch()
    world.lake.set_properties(spec.identifier, put={PAUSED_PROPERTY: "a look first"})
    with pytest.raises(PausedError):
        run.batch()

    first, paused = seen[:8], seen[8:]
    assert tuple(first) == STEPS[:8]
    assert paused == ["create", "create_dead_letters", "recover", "plan"]
    assert list(run.seconds) == paused
