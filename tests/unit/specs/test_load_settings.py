"""What valid files become."""

from __future__ import annotations

import pickle
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from config_files import GOOD, KAFKA, Load

from frazil.model.errors import FrazilError, SettingError
from frazil.model.secret import Secret
from frazil.model.settings import CatalogSettings, GlueSource, RegistrySettings, Settings
from frazil.model.spec import (
    BadRecordLimit,
    Maintain,
    MetadataColumns,
    StartEarliest,
    StartLatest,
    StartOffsets,
    StartTimestamp,
    SubjectSettings,
    TableSpec,
    Trigger,
)
from frazil.specs.load import load_tables

ORDERS = TableSpec(
    source_file="tables/a.yaml",
    database="lake",
    table="orders",
    topics=("orders",),
    key="string",
    value="avro",
    write="append",
    partition_by=("day(kafka_timestamp)",),
    readers=("snowflake", "athena", "duckdb"),
    on_bad_record="dead_letter",
    bad_record_limit=BadRecordLimit(share=0.05, at_least=100),
    on_tombstone="row",
    on_incompatible_schema="pause",
    trigger=Trigger(every=timedelta(seconds=60), rows=5_000_000, bytes=10**9),
    maintain=Maintain(target_file_bytes=512 * 10**6),
    start=StartEarliest(),
    metadata=MetadataColumns(),
    value_subject=SubjectSettings(),
    key_subject=SubjectSettings(),
)

ALL_KEYS = """
topic: orders
table: purchases
database: sales
key: avro
value: avro
write: append
order_by: kafka_offset
cdc: none
partition_by: [symbol, "bucket( 16,account )", identity(side), truncate(4, name), hour(at)]
sort_by: [symbol, "day(at) DESC", bucket(16, account) asc nulls last, n  desc nulls first, m ASC NULLS FIRST]
readers: [duckdb]
on_bad_record: skip
bad_record_limit: off
on_tombstone: dead_letter
on_incompatible_schema: pause
trigger: {every: 1h, rows: 1_000, bytes: 64MiB}
maintain: {target_file: 1.5GB, keep_dead_letters: 90d, retain_rows: null}
formats: [iceberg]
start: {timestamp: 2026-01-31T00:00:00Z}
metadata: {prefix: m_, keep: [headers, value, topic]}
subject: record
key_subject: {name: my-key}
"""


def test_a_topic_is_all_that_a_spec_needs(load: Load, tmp_path: Path) -> None:
    settings = load(GOOD, "topic: orders")

    assert settings == Settings(
        source_file="frazil.yaml",
        kafka={"bootstrap.servers": "localhost:9092"},
        registry=RegistrySettings("http://localhost:8081"),
        catalog=CatalogSettings("jdbc", str(tmp_path / ".frazil/warehouse")),
        database="lake",
        tables=(ORDERS,),
        tables_folder="tables",
    )


def test_every_key_reaches_the_spec(load: Load) -> None:
    (spec,) = load(GOOD, ALL_KEYS).tables

    assert spec == TableSpec(
        source_file="tables/a.yaml",
        database="sales",
        table="purchases",
        topics=("orders",),
        key="avro",
        value="avro",
        write="append",
        partition_by=("symbol", "bucket(16, account)", "side", "truncate(4, name)", "hour(at)"),
        sort_by=("symbol", "day(at) desc", "bucket(16, account) nulls last", "n desc nulls first", "m"),
        readers=("duckdb",),
        on_bad_record="skip",
        bad_record_limit=BadRecordLimit.off(),
        on_tombstone="dead_letter",
        on_incompatible_schema="pause",
        trigger=Trigger(every=timedelta(hours=1), rows=1000, bytes=64 * 2**20),
        maintain=Maintain(target_file_bytes=1_500_000_000, keep_dead_letters=timedelta(days=90)),
        start=StartTimestamp(datetime(2026, 1, 31, tzinfo=UTC)),
        metadata=MetadataColumns("m_", ("topic", "partition", "offset", "headers", "value")),
        value_subject=SubjectSettings("record"),
        key_subject=SubjectSettings(override="my-key"),
    )


@pytest.mark.parametrize(
    ("written", "start"),
    [
        ("earliest", StartEarliest()),
        ("latest", StartLatest()),
        ("{offsets: {0: 12, 3: 0}}", StartOffsets({0: 12, 3: 0})),
    ],
)
def test_start_takes_words_and_offsets(load: Load, written: str, start: object) -> None:
    (spec,) = load(GOOD, f"topic: orders\nstart: {written}").tables

    assert spec.start == start


def test_words_that_yaml_takes_for_booleans_and_numbers_stay_words(load: Load) -> None:
    specs = load(GOOD, "topic: no", "topic: 0123").tables

    assert [(spec.topics, spec.table) for spec in specs] == [(("no",), "no"), (("0123",), "t_0123")]


@pytest.mark.parametrize("key", ["none", "bytes", "string", "json"])
@pytest.mark.parametrize("value", ["json", "string", "bytes"])
def test_tables_without_schemas_need_no_registry(load: Load, value: str, key: str) -> None:
    settings = load(KAFKA, f"topic: orders\nvalue: {value}\nkey: {key}")

    assert settings.registry is None
    assert (settings.tables[0].value_type, settings.tables[0].needs_registry) == (None, False)


def test_one_table_with_a_schema_needs_a_registry(load: Load) -> None:
    with pytest.raises(SettingError, match=r"required key is missing: lake\.b has value: json and key: avro"):
        load(KAFKA, "topic: a\nvalue: json", "topic: b\nvalue: json\nkey: avro")


def test_several_topics_keep_the_topic_column(load: Load) -> None:
    (spec,) = load(GOOD, "topics: [orders.eu, orders.us]\ntable: orders").tables

    assert (spec.topics, spec.metadata.keep[0]) == (("orders.eu", "orders.us"), "topic")


def test_without_a_key_there_is_no_key_column(load: Load) -> None:
    (spec,) = load(GOOD, "topic: orders\nkey: none").tables

    assert spec.metadata.keep == ("partition", "offset", "timestamp", "schema_id")


def test_without_a_timestamp_column_there_is_no_partition_by_default(load: Load) -> None:
    (spec,) = load(GOOD, "topic: orders\nmetadata: {keep: []}").tables

    assert (spec.partition_by, spec.metadata.keep) == ((), ("partition", "offset"))


def test_two_specs_may_read_one_topic(load: Load) -> None:
    tables = load(GOOD, "topic: orders", "{topic: orders, table: orders_again}").tables

    assert [spec.table for spec in tables] == ["orders", "orders_again"]


def test_upper_case_is_possible_where_no_reader_minds(load: Load) -> None:
    (spec,) = load(GOOD, "{topic: orders, table: Orders, readers: [duckdb]}").tables

    assert spec.table == "Orders"


def test_relative_paths_start_at_the_configuration(load: Load, tmp_path: Path) -> None:
    settings = load(
        "kafka: {bootstrap.servers: b, security.protocol: SSL, ssl.ca.location: ../ca.pem}\n"
        "schema_registry: {url: https://r/, ssl.ca.location: /etc/ca.pem}\n"
        "catalog: {warehouse: data/lake}\n"
    )

    assert settings.kafka["ssl.ca.location"] == str(tmp_path.parent / "ca.pem")
    assert settings.registry == RegistrySettings("https://r", {"ssl.ca.location": "/etc/ca.pem"})
    assert settings.catalog.warehouse == str(tmp_path / "data/lake")


GLUE = "kafka: {bootstrap.servers: b}\nschema_registry: {type: glue, region: eu-west-1}\n"


def test_a_registry_of_glue_is_at_the_endpoint_of_its_region(load: Load) -> None:
    settings = load(GLUE, "{topic: orders, wire_format: glue}")

    source = GlueSource("default-registry", "eu-west-1")
    assert settings.registry == RegistrySettings("https://glue.eu-west-1.amazonaws.com", glue=source)
    (spec,) = settings.tables
    assert spec.value_subject.of("orders", "value") == "orders"
    assert spec.metadata.keep[-1] == "schema_uuid"


def test_the_uuid_of_schemas_is_kept_where_records_have_one(load: Load) -> None:
    headers, plain, chosen = load(
        GOOD,
        "{topic: a, wire_format: confluent_headers}",
        "topic: b",
        "{topic: c, wire_format: confluent_headers, metadata: {keep: [timestamp]}}",
    ).tables

    assert ["schema_uuid" in each.metadata.keep for each in (headers, plain, chosen)] == [True, False, False]
    assert headers.value_subject.of("a", "value") == "a-value"


@pytest.mark.parametrize(
    ("configuration", "spec", "expected"),
    [
        (GLUE, "topic: a", "has wire_format: confluent, and the registry has type: glue"),
        (GOOD, "{topic: a, wire_format: glue}", "has wire_format: glue, and the registry has type: confluent"),
        (GOOD, "{topic: a, value: json, wire_format: confluent_headers}", "no registered schema decodes them"),
        (GOOD, "{topic: a, wire_format: confluent_headers, evolution: strict}", "GUIDs, which have no order"),
        (GOOD, "{topic: a, value: connect_json, evolution: strict}", "those of connect_json are not registered"),
        (GOOD, "{topic: a, value: json, evolution: strict}", "evolution: no effect, because value is json"),
        (GOOD, "{topic: a, metadata: {keep: [schema_uuid]}}", "name no schema of their values by a UUID"),
        (GLUE.replace("region: eu-west-1", "url: http://r"), "{topic: a, wire_format: glue}", "missing: region"),
        (GLUE.replace("type: glue, ", ""), "topic: a", "missing: url"),
    ],
)
def test_a_wire_format_fits_the_registry_and_the_formats(
    load: Load, configuration: str, spec: str, expected: str
) -> None:
    with pytest.raises(FrazilError, match=expected):
        load(configuration, spec)


def test_a_glue_catalog_gets_its_further_keys(load: Load) -> None:
    settings = load(
        GOOD
        + "catalog:\n  type: glue\n  warehouse: s3://bucket/lake/\n  glue.region: eu-central-1\n"
        + "  s3.secret-access-key: ${env:KEY}\n",
        env={"KEY": "hush"},
    )

    assert settings.catalog == CatalogSettings(
        "glue", "s3://bucket/lake", {"glue.region": "eu-central-1", "s3.secret-access-key": Secret("hush")}
    )


def test_both_spellings_of_the_mechanism_arrive_as_one(load: Load) -> None:
    settings = load(
        "kafka: {bootstrap.servers: b, security.protocol: SASL_SSL, sasl.mechanisms: PLAIN, sasl.username: u, "
        f"sasl.password: 0123, socket.timeout.ms: 5000, socket.keepalive.enable: true}}\n{GOOD.splitlines()[1]}"
    )

    assert settings.kafka == {
        "bootstrap.servers": "b",
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "u",
        "sasl.password": Secret("0123"),
        "socket.timeout.ms": "5000",
        "socket.keepalive.enable": "true",
    }


def test_placeholders_are_filled_in_alone_and_inside_a_text(load: Load) -> None:
    settings = load(
        "kafka: {bootstrap.servers: '${env:HOST}:9092'}\n"
        'schema_registry: {url: http://r, basic.auth.user.info: "${secret:r#key}:$${${secret:plain}"}\n'
        "database: ${env:DB}\n",
        env={"HOST": "broker", "DB": "sales"},
        secrets={"r": '{"key": "me"}', "plain": "text"},
    )

    assert settings.kafka["bootstrap.servers"] == "broker:9092"
    assert settings.registry.properties == {"basic.auth.user.info": Secret("me:${text")}
    assert settings.tables[0].database == "sales"


def test_settings_travel_to_other_processes(load: Load) -> None:
    settings = load()

    assert pickle.loads(pickle.dumps(settings)) == settings


def test_the_first_configuration_of_this_repository_is_valid(load: Load) -> None:
    root = Path(__file__).parents[3]

    specs, local = (root / "tables/stock_trades.yaml").read_text(), {"bootstrap_servers": "127.0.0.1:5"}
    local["schema_registry_url"] = "http://127.0.0.1:6"
    settings = load((root / "frazil.yaml").read_text(), specs, local=local.__getitem__)

    assert [spec.identifier for spec in settings.tables] == ["lake.stock_trades"]
    assert settings.kafka == {"bootstrap.servers": "127.0.0.1:5"}
    assert settings.registry.url == "http://127.0.0.1:6"


def test_table_specs_alone_are_those_that_frazil_yaml_would_have(load: Load, tmp_path: Path) -> None:
    settings = load(GOOD, "topic: orders", "topic: trades")

    alone = load_tables(tmp_path / "tables", {}, database="lake", catalog_type="jdbc")

    assert [spec.pipeline for spec in alone] == [spec.pipeline for spec in settings.tables]


def test_problems_of_table_specs_alone_are_listed_as_well(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("topic: orders\nvlaue: avro", encoding="utf-8")

    with pytest.raises(SettingError, match="unknown key"):
        load_tables(tmp_path, {}, database="lake", catalog_type="glue")
    with pytest.raises(SettingError, match=r"the folder .* does not exist"):
        load_tables(tmp_path / "nowhere", {}, database="lake", catalog_type="glue")
