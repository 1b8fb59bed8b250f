"""The page about Snowflake says what the stack grants; the worksheets name what the stack makes, and nothing else."""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pages import ROOT, section, table, text_of

from frazil.specs.load import load_tables
from infra.cdk import App
from infra.components.kafka import external
from infra.guards.aspect import synthesize
from infra.reports.picture import ACCOUNT as EXAMPLE
from infra.settings.file import load_environment
from infra.settings.model import ExternalKafka, ExternalRegistry
from infra.stacks.lake import LakeStack
from infra.stacks.snowflake import SnowflakeStack

PAGE = ROOT / "docs" / "snowflake.md"
WORKSHEETS = sorted((ROOT / "worksheets").glob("*.sql"))
ACCOUNT = replace(EXAMPLE, allowed_cidrs=("203.0.113.0/24",))
KAFKA = ExternalKafka("kafka", "b:9092", "plaintext", None, False, None, ExternalRegistry("http://r", None))
MADE_BY_HAND = {"FRAZIL_DEPLOYER", "FRAZIL_DEV_DELTA", "STOCK_TRADES__DIRECT"}
Resources = Mapping[str, Mapping[str, Any]]


@pytest.fixture(scope="module")
def resources() -> Resources:
    """The stack of `dev`, its table with a Delta log: the arguments of each resource by type and path."""
    settings = replace(load_environment("dev", {}), kafka=KAFKA)
    specs = [
        replace(spec, formats=("iceberg", "delta"))
        for spec in load_tables(ROOT / "tables", {}, database="lake", catalog_type="glue")
    ]
    with tempfile.TemporaryDirectory() as out:
        app = App(outdir=out)
        SnowflakeStack(
            app, settings, account=ACCOUNT, lake=LakeStack(app, settings, kafka=external(KAFKA)), tables=specs
        )
        synthesize(app, production=False)
        document = json.loads((Path(out) / "stacks" / "snowflake" / "cdk.tf.json").read_text())
    return {
        kind: {body["//"]["metadata"]["path"].split("/", 1)[1]: body for body in named.values()}
        for kind, named in document["resource"].items()
    }


def granted(resources: Resources) -> Iterator[tuple[str, str, str]]:
    """Each privilege in the words of the page."""
    for path, grant in resources["snowflake_grant_privileges_to_account_role"].items():
        for privilege in grant["privileges"]:
            yield path.split("/", 1)[0], on(grant), f"`{privilege}`"
    for path, grant in resources["snowflake_grant_ownership"].items():
        yield path.split("/", 1)[0], to_come(grant["on"]["future"]), "`OWNERSHIP`"


def on(grant: Mapping[str, Any]) -> str:
    match grant:
        case {"on_schema": _}:
            return "the schema"
        case {"on_account_object": {"object_type": "USER"}}:
            return "the three users"
        case {"on_account_object": {"object_type": kind}}:
            return f"the {kind.lower()}"
        case {"on_schema_object": {"future": future}}:
            return to_come(future)
        case {"on_schema_object": {"object_name": name}}:
            return "the stage `EXPORTS`" if "exports" in name else "the stage `TABLES`"
    raise AssertionError(grant)


def to_come(future: Mapping[str, str]) -> str:
    kinds = {"ICEBERG TABLES": "Iceberg tables", "EXTERNAL TABLES": "external tables"}
    return f"all {kinds[future['object_type_plural']]} to come"


def test_the_page_tells_every_privilege_of_every_role(resources: Resources) -> None:
    told = [(role, where, may) for role, where, may, *_ in table(section(PAGE, "Who can do what"))]

    assert sorted(told) == sorted(set(granted(resources)))


def test_the_page_names_every_role_in_aws(resources: Resources) -> None:
    told = {name.strip("`") for name, *_ in table(section(PAGE, "How Snowflake gets into AWS"))}

    assert told == {role["name"] for role in resources["aws_iam_role"].values()}


def test_the_page_names_every_object_that_is_made(resources: Resources) -> None:
    text = section(PAGE, "What is made").replace("`_READER`, `_ROTATOR`", "")
    made = {body["name"] for kind, named in resources.items() for body in named.values() if is_named(kind, body)}

    missing = {name for name in made if name not in text and not name.endswith(("_READER", "_ROTATOR"))}
    assert missing == set()


def is_named(kind: str, body: Mapping[str, Any]) -> bool:
    return kind.startswith("snowflake_") and "name" in body


def test_every_worksheet_is_on_the_page() -> None:
    told = {name.strip("`") for name, _ in table(section(PAGE, "Ask"))}

    assert told == {path.relative_to(ROOT).as_posix() for path in WORKSHEETS}


@pytest.mark.parametrize("worksheet", WORKSHEETS, ids=lambda path: path.name)
def test_a_worksheet_names_what_is_made(worksheet: Path, resources: Resources) -> None:
    made = {body["name"] for kind, named in resources.items() for body in named.values() if is_named(kind, body)}
    statements = re.sub(r"--.*", "", text_of(worksheet))
    named = set(re.findall(r"\b(?:FRAZIL_\w+|EXPORTS\w*|STOCK_TRADES\w*)\b", statements))

    assert named - made - MADE_BY_HAND == set()


@pytest.mark.parametrize("worksheet", WORKSHEETS, ids=lambda path: path.name)
def test_a_worksheet_says_who_it_is_for_and_ends_each_statement(worksheet: Path) -> None:
    lines = text_of(worksheet).splitlines()
    code = "\n".join(line for line in re.sub(r"--.*", "", text_of(worksheet)).splitlines() if line.strip())

    assert lines[0].startswith("-- ")
    assert code.rstrip().endswith(";")
    assert code.count("(") == code.count(")")


MAY: Mapping[str, str] = {
    "FRAZIL_DEV_READER": r"SELECT|LIST|SHOW ICEBERG TABLES",
    "FRAZIL_DEV_LOADER": r"ALTER EXTERNAL TABLE",
    "FRAZIL_DEPLOYER": r"SHOW|DESCRIBE|CREATE|ALTER ICEBERG TABLE|SELECT PARSE_JSON\(SYSTEM\$VERIFY_EXTERNAL_VOLUME",
}
"""How the statements begin that a role has the privileges for."""


@pytest.mark.parametrize(
    "worksheet", [path for path in WORKSHEETS if path.stem != "deployer"], ids=lambda path: path.name
)
def test_role_and_warehouse_are_session_variables_and_each_role_may_run_its_statements(worksheet: Path) -> None:
    variables, role = dict[str, str](), ""
    for statement in re.sub(r"--.*", "", text_of(worksheet)).split(";"):
        text = " ".join(statement.split())
        if found := re.fullmatch(r"SET (\w+) = '([^']+)'", text):
            variables[found[1]] = found[2]
        elif found := re.fullmatch(r"USE (ROLE|WAREHOUSE|SCHEMA) IDENTIFIER\(\$(\w+)\)", text):
            role = variables[found[2]] if found[1] == "ROLE" else role
            assert role, "a role is taken before what it uses"
        elif text:
            assert re.match(MAY[role], text), (role, text)
