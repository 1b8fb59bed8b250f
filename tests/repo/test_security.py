"""The security model says what the stacks and their rules say: roles, their trust, their permissions, the guards."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pages import ROOT, fences, section, table, text_of

from infra.app import TABLES, build, read_tables
from infra.guards.rules import ALLOWED_WILDCARDS, RULES
from infra.reports.costs import Document, read_stacks
from infra.reports.picture import NOTHING_PACKED, WEEKLY
from infra.settings.file import load_environment
from infra.settings.model import ConfluentKafka, EnvironmentSettings, Flink, Reader, Scheduled
from infra.wanted.grants import grants
from shared.accounts import PURPOSES

PAGE = ROOT / "docs/security.md"
READER = Reader("arn:aws:iam::111122223333:root", "shown", athena=True)
WITH_MSK = """
region: us-east-1
kafka:
  external:
    bootstrap.servers: b-1.lake.kafka.us-east-1.amazonaws.com:9098
    aws_msk_iam: true
    registry: {glue: {registry_name: payments}}
"""
WITH_OUTPUT = "topic: orders\noutputs: [{topic: orders.clean}]"
SPAN = re.compile(r"`([^`]+)`")
Json = Mapping[str, Any]


def _with_everything() -> EnvironmentSettings:
    dev = load_environment("dev", {})
    assert isinstance(dev.kafka, ConfluentKafka)
    lake = replace(dev.lake, readers={"NAME": READER}, catalog_key="arn:aws:kms:us-east-1:111122223333:key/catalog")
    return replace(
        dev,
        kafka=replace(dev.kafka, tableflow=("stock_trades",), flink=Flink(5, statements=True)),
        lake=lake,
        exports=WEEKLY,
    )


def _with_a_schedule() -> EnvironmentSettings:
    dev = load_environment("dev", {})
    scheduled = {spec.table: Scheduled("rate(1 hour)") for spec in read_tables(TABLES)}
    return replace(dev, jobs=replace(dev.jobs, tables=scheduled))


@pytest.fixture(scope="module")
def stacks(tmp_path_factory: pytest.TempPathFactory) -> list[Document]:
    """Of three environments, which together have all that there can be."""
    folder = tmp_path_factory.mktemp("environments")
    (folder / "dev.yaml").write_text(WITH_MSK)
    sending = tmp_path_factory.mktemp("tables")
    (sending / "orders.yaml").write_text(WITH_OUTPUT)
    written: list[Document] = []
    given = (
        (_with_everything(), TABLES),
        (_with_a_schedule(), TABLES),
        (load_environment("dev", {}, folder=folder), sending),
    )
    for settings, tables in given:
        out: Path = tmp_path_factory.mktemp("out")
        build(settings, out, NOTHING_PACKED, tables=tables)
        written += read_stacks(out).values()
    return written


def _resources(stacks: list[Document], kind: str) -> Iterator[Document]:
    for stack in stacks:
        yield from stack.get("resource", {}).get(kind, {}).values()


def _many(value: str | list[str]) -> list[str]:
    return [value] if isinstance(value, str) else value


def _keys(statement: Json) -> set[str]:
    return {key for keys in statement.get("Condition", {}).values() for key in keys}


@pytest.fixture(scope="module")
def trust(stacks: list[Document]) -> dict[str, set[str]]:
    """By role, the keys of the conditions on which it is taken."""
    policies = {each["name"]: json.loads(each["assume_role_policy"]) for each in _resources(stacks, "aws_iam_role")}
    return {
        name: {key for each in policy["Statement"] if "sts:AssumeRole" in _many(each["Action"]) for key in _keys(each)}
        for name, policy in policies.items()
    }


def test_every_role_is_there_with_the_conditions_of_its_trust(trust: dict[str, set[str]]) -> None:
    rows = table(section(PAGE, "Who trusts whom").partition("```\n\n")[2])

    told = {SPAN.findall(role)[0]: set(SPAN.findall(conditions)) for role, _, conditions, _ in rows}

    assert told == trust


def test_the_diagram_shows_the_same_trust(trust: dict[str, set[str]]) -> None:
    (diagram,) = (fence.body for fence in fences(PAGE) if fence.language == "mermaid")
    roles = dict(re.findall(r'([\w-]+)\["(frazil-dev-[\w-]+)"\]', diagram))
    arrow = re.compile(r'^ +[\w-]+\(\[".*"\]\) (?:-- "(.*)" )?--> ([\w-]+)', re.MULTILINE)

    drawn = {roles[to]: set(filter(None, said.split("<br/>"))) for said, to in arrow.findall(diagram) if to in roles}

    assert drawn == trust


def test_every_permission_of_every_role_is_told(stacks: list[Document]) -> None:
    expected = {
        (each["name"], statement["Sid"], statement["Effect"]): (set(_many(statement["Action"])), _keys(statement))
        for each in _resources(stacks, "aws_iam_role_policy")
        for statement in json.loads(each["policy"])["Statement"]
    }
    parts = re.split(r"^### `(.+?)`.*$", section(PAGE, "What each role may do"), flags=re.MULTILINE)

    told = {
        (role, SPAN.findall(sid)[0], "Deny" if "**never**" in may else "Allow"): (
            set(SPAN.findall(may)),
            set(SPAN.findall(conditions)),
        )
        for role, text in zip(parts[1::2], parts[2::2], strict=True)
        for sid, _, may, conditions in table(text)
    }

    assert told == expected


def test_every_account_of_confluent_is_there_with_its_roles() -> None:
    kafka = _with_everything().kafka
    assert isinstance(kafka, ConfluentKafka)
    expected = {
        account: [(grant.role, grant.kind, *([grant.name] if grant.name else [])) for grant in given]
        for account, given in grants(kafka, read_tables(TABLES), "frazil-dev-").items()
    }
    rows = table(section(PAGE, "What each role may do").partition("In Confluent Cloud")[2])

    told = {SPAN.findall(account)[0]: [_grant(each) for each in roles.split("; ")] for account, _, roles in rows}

    assert told == expected
    assert [purpose for _, purpose, _ in rows] == [PURPOSES[account] for account in expected]


def _grant(told: str) -> tuple[str, ...]:
    role, _, what = told.partition(" on ")
    return (role, *what.removeprefix("the ").replace("`", "").split())


def test_every_guard_is_listed_with_what_it_says() -> None:
    rows = table(section(PAGE, "The guards"))

    assert rows == [[f"`{rule.__name__}`", rule.__doc__] for rule in RULES]


def test_every_wildcard_is_listed_with_its_reason() -> None:
    rows = table(section(PAGE, "The guards").partition("A wildcard needs a reason")[2])

    assert rows == [[f"`{each.type}`", f"`{each.wildcard}`", each.reason] for each in ALLOWED_WILDCARDS]


def test_the_stacks_hold_no_resource_that_keeps_a_secret_in_its_state(stacks: list[Document]) -> None:
    keeps_one = {
        "aws_secretsmanager_secret_version",
        "aws_iam_access_key",
        "confluent_api_key",
        "confluent_kafka_topic",
        "random_password",
        "tls_private_key",
    }

    assert {kind for stack in stacks for kind in stack.get("resource", {})} & keeps_one == set()
    assert "the list of exemptions is empty" in text_of(PAGE)
