"""The guide to HCP Terraform names the workspaces, what they share, and what they need, as the stacks have it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

import pytest
from pages import ROOT, section, table

from infra.app import build
from infra.reports.costs import Document, read_stacks
from infra.reports.picture import ACCOUNT, NOTHING_PACKED, WEEKLY
from infra.settings.file import load_environment
from infra.settings.model import ConfluentKafka, Flink, HcpState
from shared.naming import workspace_name

PAGE = ROOT / "docs/hcp.md"
READS = "cross-stack-reference-input-"
SPAN = re.compile(r"`([^`]+)`")


@pytest.fixture(scope="module")
def stacks(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Document]:
    settings = load_environment("dev", {})
    assert isinstance(settings.kafka, ConfluentKafka)
    kept = HcpState("acme", "lake", "app.terraform.io")
    out = tmp_path_factory.mktemp("out")
    kafka = replace(settings.kafka, tableflow=("stock_trades",), flink=Flink(5, statements=True))
    build(replace(settings, backend=kept, kafka=kafka, snowflake=ACCOUNT, exports=WEEKLY), out, NOTHING_PACKED)
    return read_stacks(out)


@pytest.fixture(scope="module")
def rows() -> dict[str, list[str]]:
    return {SPAN.findall(row[0])[0]: row for row in table(section(PAGE, "Remote: what each workspace needs"))}


def test_there_is_a_row_for_each_workspace(stacks: Mapping[str, Document], rows: Mapping[str, list[str]]) -> None:
    assert set(rows) == {workspace_name("dev", stack) for stack in stacks}
    assert {each["terraform"]["cloud"]["workspaces"]["name"] for each in stacks.values()} == set(rows)


def test_each_workspace_shares_its_state_with_those_that_read_it(
    stacks: Mapping[str, Document], rows: Mapping[str, list[str]]
) -> None:
    read_by = {
        stack: {name for name, each in stacks.items() if READS + stack in _remote_states(each)} for stack in stacks
    }

    told = {stack: set(SPAN.findall(rows[workspace_name("dev", stack)][2])) for stack in stacks}

    assert told == read_by


def test_each_workspace_needs_what_its_providers_do(
    stacks: Mapping[str, Document], rows: Mapping[str, list[str]]
) -> None:
    words = {"aws": "AWS", "confluent": "Confluent", "snowflake": "Snowflake"}

    told = {stack: rows[workspace_name("dev", stack)][1] for stack in stacks}

    for stack, document in stacks.items():
        assert {words[provider] for provider in document["provider"]} == {
            word for word in words.values() if word in told[stack]
        }, stack


def _remote_states(document: Document) -> Mapping[str, Document]:
    found: Mapping[str, Document] = document.get("data", {}).get("terraform_remote_state", {})
    return found
