"""Who may do what in Confluent Cloud, as a whole table."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from pathlib import Path

from frazil.adapters.kafka.topics import consumer_settings
from frazil.model.outputs import OutputSpec
from frazil.model.spec import TableSpec
from frazil.model.transforms import TransformSpec
from frazil.specs.load import load_tables
from infra.settings.model import ConfluentKafka, Flink, Topic
from infra.wanted.grants import grants
from infra.wanted.topics import USUAL
from shared.accounts import PARTS

KAFKA = ConfluentKafka("us-east-1", "SINGLE_ZONE", "ESSENTIALS", datagen=False, tableflow=())


def specs(folder: Path, *texts: str) -> tuple[TableSpec, ...]:
    for number, text in enumerate(texts):
        (folder / f"{number}.yaml").write_text(text)
    return load_tables(folder, {}, database="lake", catalog_type="glue")


def told(kafka: ConfluentKafka, tables: tuple[TableSpec, ...]) -> dict[str, list[str]]:
    given = grants(kafka, tables, "frazil-dev-")
    return {account: [f"{each.role} {each.kind}={each.name}" for each in all_] for account, all_ in given.items()}


def test_every_account_has_the_least_that_its_work_needs(tmp_path: Path) -> None:
    assert told(KAFKA, specs(tmp_path, "topic: orders\nkey: avro")) == {
        "manager": ["DeveloperManage topic=orders"],
        "producer": [
            "DeveloperWrite topic=orders",
            "DeveloperWrite subject=orders-key",
            "DeveloperWrite subject=orders-value",
        ],
        "consumer": [
            "DeveloperRead topic=orders",
            "DeveloperRead group=frazil-dev-*",
            "DeveloperRead subject=orders-key",
            "DeveloperRead subject=orders-value",
        ],
        "registry": ["ResourceOwner subject=orders-key", "ResourceOwner subject=orders-value"],
        "materializer": [
            "DeveloperRead topic=orders",
            "DeveloperRead group=frazil-reads-explicit-offsets",
            "DeveloperRead subject=orders-key",
            "DeveloperRead subject=orders-value",
        ],
    }


def test_the_job_sends_to_the_outputs_of_its_tables_and_to_no_other_topic(tmp_path: Path) -> None:
    tables = specs(tmp_path, "topic: orders\noutputs: [{topic: orders.clean}, {topic: orders.again}]", "topic: trades")

    given = told(KAFKA, tables)

    assert given["materializer"][-14:] == [
        "DeveloperWrite topic=orders.again",
        "DeveloperWrite topic=orders.clean",
        "DeveloperRead topic=orders.again",
        "DeveloperRead topic=orders.clean",
        "DeveloperWrite transactional-id=frazil-output-*",
        "DeveloperRead group=frazil-output-*",
        *(
            f"Developer{can} subject=orders.{name}-{part}"
            for can, name, part in product(("Write", "Read"), ("again", "clean"), ("key", "value"))
        ),
    ]
    assert "DeveloperManage topic=orders.clean" not in given["manager"]


def test_the_job_sends_to_the_outputs_of_transformations(tmp_path: Path) -> None:
    tables = specs(tmp_path, "topic: orders")
    large = TransformSpec(
        "large.yaml", "large", "lake", "large", "lake.orders", outputs=(OutputSpec("orders.large", "large"),)
    )

    given = grants(KAFKA, tables, "frazil-dev-", [large])["materializer"]

    assert {"DeveloperWrite", "DeveloperRead"} == {each.role for each in given if each.name == "orders.large"}


def test_the_connector_and_tableflow_have_accounts_only_where_they_are_wanted(tmp_path: Path) -> None:
    given = told(replace(KAFKA, datagen=True, tableflow=("stock_trades",)), specs(tmp_path, "topic: stock_trades"))

    assert given["connector"] == [
        "DeveloperWrite topic=stock_trades",
        "DeveloperWrite subject=stock_trades-value",
        "DeveloperManage topic=data-preview*",
        "DeveloperWrite topic=data-preview*",
    ]
    assert given["tableflow"] == ["CloudClusterAdmin cluster=", "DeveloperRead subject=stock_trades-value"]


def test_statements_read_trades_and_write_totals_and_a_pool_alone_has_no_account(tmp_path: Path) -> None:
    tables = specs(tmp_path, "topic: stock_trades")

    assert "flink" not in told(replace(KAFKA, datagen=True, flink=Flink(5, statements=False)), tables)
    assert told(replace(KAFKA, datagen=True, flink=Flink(5, statements=True)), tables)["flink"] == [
        "FlinkDeveloper environment=",
        "DeveloperRead transactional-id=_confluent-flink_*",
        "DeveloperWrite transactional-id=_confluent-flink_*",
        "DeveloperRead topic=stock_trades",
        "DeveloperRead subject=stock_trades-value",
        "DeveloperManage topic=stock_total_trades",
        "DeveloperWrite topic=stock_total_trades",
        *(
            f"Developer{can} subject=stock_total_trades-{part}"
            for can, part in product(("Write", "Read"), ("key", "value"))
        ),
    ]


def test_the_job_reads_the_topics_of_its_tables_alone_and_all_subjects_that_their_schemas_refer_to(
    tmp_path: Path,
) -> None:
    kafka = replace(KAFKA, topics={"audit": USUAL}, subjects=("common-*",))

    given = told(kafka, specs(tmp_path, "topic: orders"))

    assert given["materializer"] == [
        "DeveloperRead topic=orders",
        "DeveloperRead group=frazil-reads-explicit-offsets",
        "DeveloperRead subject=orders-value",
        "DeveloperRead subject=common-*",
    ]
    assert given["producer"][2:] == [
        "DeveloperWrite subject=audit-key",
        "DeveloperWrite subject=audit-value",
        "DeveloperWrite subject=orders-value",
        "DeveloperRead subject=common-*",
    ]
    assert "DeveloperManage topic=audit" in given["manager"]


def test_the_group_that_the_job_may_ask_for_is_the_one_that_it_names(tmp_path: Path) -> None:
    group = consumer_settings({"bootstrap.servers": "localhost:9092"})["group.id"]

    assert f"DeveloperRead group={group}" in told(KAFKA, specs(tmp_path, "topic: orders"))["materializer"]


def test_nobody_has_a_role_twice_and_every_account_says_which_keys_it_needs(tmp_path: Path) -> None:
    topics = {"orders": Topic(12, USUAL.retention)}
    tables = specs(tmp_path, "topic: orders", "topic: orders\ntable: again", "topics: [a, b]\ntable: both")
    everything = replace(
        KAFKA, datagen=True, tableflow=("stock_trades",), topics=topics, flink=Flink(5, statements=True)
    )
    given = grants(everything, tables, "frazil-dev-")

    assert all(len({grant.id for grant in all_}) == len(all_) for all_ in given.values())
    assert given.keys() == PARTS.keys()
