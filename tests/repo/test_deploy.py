"""The guides to a deployment: steps, prerequisites, prices and settings in them are those of the code."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from pages import ROOT, fences, name_of, section, table, text_of

from frazil.specs.prices import read_prices
from infra.app import build
from infra.artefacts.environment import GLIBC_MINORS, Target
from infra.components.job_request import SCHEDULED_MINUTES
from infra.deploy.checks.prerequisites import (
    FREE_GIGABYTES,
    NODE_AT_LEAST,
    PYTHON_AT_LEAST,
    TERRAFORM_AT_LEAST,
    of_this_machine,
)
from infra.deploy.local.cloud import LocalCloud
from infra.deploy.verbs import CREATE
from infra.reports.costs import idle_costs, job_cost, read_stacks, report
from infra.reports.picture import NOTHING_PACKED
from infra.settings.file import load_environment
from infra.stacks.lake import LONGEST_KEY_DELETION_DAYS, SHORTEST_KEY_DELETION_DAYS
from infra.wanted.topics import USUAL

DEPLOY = ROOT / "docs/deploy.md"
KICKSTARTER = ROOT / "docs/kickstarter.md"
EXAMPLE = ROOT / "infra/environments/dev.yaml"
WITH_SETTINGS = [DEPLOY, ROOT / "docs/hcp.md"]
SPAN = re.compile(r"`([^`]+)`")


def _settings_in(page: Path) -> list[str]:
    return [fence.body for fence in fences(page) if fence.language == "yaml"]


def _example(fragment: str) -> dict[str, Any]:
    """The environment that is committed, with what a page changes about it."""
    return {**yaml.safe_load(text_of(EXAMPLE)), **yaml.safe_load(fragment)}


SHOWN = [
    pytest.param(fragment, id=f"{name_of(page)}-{number}")
    for page in WITH_SETTINGS
    for number, fragment in enumerate(_settings_in(page))
]


@pytest.mark.parametrize("fragment", SHOWN)
def test_settings_that_a_page_shows_can_be_used(tmp_path: Path, fragment: str) -> None:
    shown = _example(fragment)
    (tmp_path / "shown.yaml").write_text(yaml.safe_dump(shown))
    settings = load_environment("shown", {}, folder=tmp_path)
    tables = tmp_path / "tables"
    tables.mkdir()
    for name in ("stock_trades", *settings.jobs.tables):
        (tables / f"{name}.yaml").write_text(f"topic: {name}\n")

    names = build(settings, tmp_path / "out", NOTHING_PACKED, tables=tables)

    assert "jobs" in names


@pytest.mark.parametrize("page", [DEPLOY, ROOT / "README.md"], ids=name_of)
def test_the_local_cloud_ends_with_the_variables_that_its_env_file_sets(page: Path) -> None:
    (shown,) = (fence.body for fence in fences(page) if "deploy.sh delete --profile=local" in fence.body)

    last = shown.strip().splitlines()[-1]

    assert shlex.split(last, comments=True) == ["unset", "FRAZIL_CONFIG", *LocalCloud.exported]


def test_the_steps_are_those_of_create_in_its_order() -> None:
    told = [SPAN.findall(step)[0] for step, *_ in table(section(DEPLOY, "Plan and create"))]

    assert told == [str(call) for call in CREATE]


def test_every_prerequisite_that_is_checked_is_named() -> None:
    def nothing(command: Sequence[str]) -> str:
        raise FileNotFoundError(command[0])

    found = of_this_machine(ROOT, Target("3.11", "x86_64"), nothing, native_required=True)

    told = dict(table(section(DEPLOY, "What you need")))

    assert list(told) == [
        *(finding.what for finding in found),
        "Confluent Cloud key",
        "Confluent CLI",
        "Snowflake key",
        "AWS account",
        "AWS CLI",
    ]
    assert told["Python"].startswith(".".join(map(str, PYTHON_AT_LEAST)))
    assert told["Terraform"].startswith(".".join(map(str, TERRAFORM_AT_LEAST)))
    assert told["Node.js"].startswith(f"{NODE_AT_LEAST} or newer")
    assert told["disk"].startswith(f"{FREE_GIGABYTES} GB")


def test_every_place_asks_for_the_same_versions() -> None:
    wanted = ".".join(map(str, TERRAFORM_AT_LEAST))
    asked = {
        name_of(page): re.findall(
            r"([\d.]+) or newer", " ".join(re.findall(r"Terraform\b.{0,60}?newer", text_of(page)))
        )
        for page in (ROOT / "README.md", DEPLOY, ROOT / "docs/hcp.md")
    }

    assert {name: set(versions) for name, versions in asked.items()} == {name: {wanted} for name in asked}
    assert f"Terraform {wanted} is enough" in text_of(KICKSTARTER)
    assert f"parseInt(process.versions.node) < {NODE_AT_LEAST})" in text_of(ROOT / "Makefile")


def test_the_costs_are_those_of_the_example(tmp_path: Path) -> None:
    settings = load_environment("dev", {})
    build(settings, tmp_path, NOTHING_PACKED)
    prices = read_prices()
    (told,) = (fence.body for fence in fences(DEPLOY) if fence.language == "text")
    arm64 = job_cost(replace(settings.jobs, architecture="arm64"), prices)

    assert told.splitlines() == list(report(read_stacks(tmp_path), settings.jobs, prices))
    assert f"{arm64.hourly:.3f} {prices.currency} an hour" in re.sub(r"\s+", " ", section(DEPLOY, "Costs"))


@pytest.mark.parametrize(
    ("title", "figure"),
    [
        ("Hot and cold tables", f"after {SCHEDULED_MINUTES} minutes"),
        ("Delete", f"after {SHORTEST_KEY_DELETION_DAYS} days ({LONGEST_KEY_DELETION_DAYS} in production)"),
        ("Add a table", f"{ {6: 'six'}[USUAL.partitions] } partitions, { {7: 'seven'}[USUAL.retention.days] } days"),
        ("arm64, and other machines", f"glibc 2.{max(GLIBC_MINORS)} or older"),
    ],
)
def test_figures_are_those_of_the_code(title: str, figure: str) -> None:
    assert figure in re.sub(r"\s+", " ", section(DEPLOY, title))


@pytest.mark.parametrize(
    "named",
    [
        *("--profile=", "--confluent-api-key=", "--confluent-api-secret=", "--snowflake-warehouse=", "--day-count="),
        "--number-of-api-keys-to-retain=",
        *(f"setup-confluent-{part}.tf" for part in ("kafka", "schema_registry", "flink", "tableflow")),
        "setup-confluent-tableflow-restful_call.tf",
        *("setup-aws-s3.tf", "setup-aws-secret_manager.tf"),
        *(f"setup-snowflake-{part}.tf" for part in ("user_roles", "objects", "grant_privileges")),
        *("snowflake_user_rsa_key_pairs_rotation", "tableflow_glue_s3_access_role", "snowflake_glue_s3_access_role"),
        *("iac-snowflake-user-rsa_key_pairs_generator-lambda", "stock_trades", "stock_total_trades"),
        *(f"s3:{verb}" for verb in ("ListAllMyBuckets", "ListBucket", "GetBucketLocation", "PutObject", "GetObject")),
        *("s3:ListBucketMultipartUploads", "s3:PutObjectTagging", "s3:AbortMultipartUpload"),
        *("s3:ListMultipartUploadParts", "sts:AssumeRole", "sts:TagSession", "sts:ExternalId"),
        *(f"glue:{verb}{what}" for verb in ("Get", "Create", "Update", "Delete") for what in ("Table", "Database")),
    ],
)
def test_everything_of_the_kickstarter_has_its_row(named: str) -> None:
    rows = [line for line in text_of(KICKSTARTER).splitlines() if line.startswith("| ")]

    assert any(f"`{named}" in line.split(" | ")[0] for line in rows)


def test_every_row_of_the_kickstarter_says_where_it_is() -> None:
    words = {"here", "other", "later", "side by side"}
    titles = ("The command", "The configuration, file by file", "What Tableflow does", "Reading the tables")
    rows = [row for title in titles for row in table(section(KICKSTARTER, title))]

    assert [row for row in rows if len(row) != 3 or row[1] not in words or not row[2]] == []
    assert len(rows) > 50


def test_the_readme_tells_the_same_costs(tmp_path: Path) -> None:
    settings = load_environment("dev", {})
    build(settings, tmp_path, NOTHING_PACKED)
    prices = read_prices()
    monthly = sum(line.monthly for line in idle_costs(read_stacks(tmp_path), prices))
    hourly = job_cost(settings.jobs, prices).hourly

    told = re.sub(r"\s+", " ", section(ROOT / "README.md", "Into your own account"))

    assert f"costs {monthly:.2f} {prices.currency} a month" in told
    assert f"a job run {hourly:.3f} {prices.currency} an hour" in told
