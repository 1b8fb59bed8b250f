"""The summary at the end of `create`: resources, where to look, commands to try, and the cost while idle."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from frazil.specs.prices import read_prices
from infra.deploy.deployment import Deployment
from infra.reports.costs import read_stacks, report

Outputs = Mapping[str, Mapping[str, Any]]
"""By stack, then by name."""


def summary_lines(deployment: Deployment, outputs: Outputs, resources: Mapping[str, list[str]]) -> Iterator[str]:
    yield f"The environment {deployment.environment} is deployed: {sum(map(len, resources.values()))} resources."
    for stack, made in resources.items():
        yield f"  {stack:<12} {len(made):>3} resources"
    yield ""
    yield from _where(outputs)
    yield ""
    yield from _what_to_try(deployment)
    yield ""
    yield from _costs(deployment)


def _where(outputs: Outputs) -> Iterator[str]:
    lake, jobs, exports, snowflake = (outputs.get(stack, {}) for stack in ("lake", "jobs", "exports", "snowflake"))
    places = {
        "tables": lake.get("warehouse"),
        "Glue database": lake.get("database_name"),
        "Athena workgroup": lake.get("workgroup_name"),
        "application": jobs.get("application_id"),
        "logs": jobs.get("log_group_name"),
        "dashboard": jobs.get("dashboard_url"),
        "exports": exports.get("exports_address"),
        "Snowflake": _in_snowflake(snowflake) if snowflake else None,
    }
    yield "Where to look:"
    yield from (f"  {what:<17} {place}" for what, place in places.items() if place)


def _in_snowflake(snowflake: Mapping[str, Any]) -> str:
    place = f"{snowflake['database_name']}.{snowflake['schema_name']}"
    tables = ", ".join(sorted(snowflake["iceberg_tables"].values())) or "no table is in Glue yet"
    return f"{snowflake['account_name']}, {place}, warehouse {snowflake['warehouse_name']}: {tables}"


def _what_to_try(deployment: Deployment) -> Iterator[str]:
    yield "What to try:"
    yield f"  source {deployment.env_file.relative_to(deployment.checkout)}"
    yield from (f"  {command}" for command in deployment.cloud.first_commands)
    yield "  .venv/bin/frazil status"
    yield "  .venv/bin/frazil verify"
    yield f"  scripts/deploy.sh delete --profile={deployment.profile} --environment={deployment.environment}"


def _costs(deployment: Deployment) -> Iterator[str]:
    """Yield the costs in a real account, also for a local deployment, which is free."""
    yield deployment.cloud.costs_title
    yield from report(read_stacks(deployment.synthesized), deployment.settings.jobs, read_prices())
