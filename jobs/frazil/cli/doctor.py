"""`frazil doctor`: check that every service is reachable and permitted, with a hint for each failure."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from frazil.cli.config_name import remark_on_origin, with_config_name
from frazil.cli.options import DEFAULT_CONFIG, Config, Json, example, local_address_in
from frazil.cli.screen import fitting_lines
from frazil.model.spelling import plural

if TYPE_CHECKING:
    from frazil.doctor.finding import Finding, Report

Application = Annotated[
    str | None,
    typer.Option(
        "--application", metavar="ID", help="Check from inside this EMR Serverless application, in a job run."
    ),
]
INDENT = " " * 11


def register(app: typer.Typer) -> None:
    examples = example(
        "frazil doctor", "frazil doctor --json", "frazil doctor --application 00fabcdefghijk09  # checks from inside"
    )
    app.command("doctor", epilog=examples)(doctor)


def doctor(as_json: Json = False, application: Application = None, config: Config = DEFAULT_CONFIG) -> None:
    """Check that every service answers and permits access.

    Each failure has a hint, and the exit status is 1 after any. Nothing is changed: one small object is written to the
    warehouse and removed again. With --application, a job run with the settings of the application's newest one makes
    the same checks there, which takes a few minutes.
    """
    report = _here(config, show=not as_json) if application is None else _inside(application, show=not as_json)
    if as_json:
        print(json.dumps(report.to_json(), indent=2))
    else:
        print(summary(report))
        if application is None and not report.well and (origin := remark_on_origin()) is not None:
            print(origin)
    if not report.well:
        raise typer.Exit(1)


def _here(config: Path, *, show: bool) -> Report:
    """Run the checks here, and show each finding at once, because a check may take seconds."""
    from frazil.adapters.aws.secrets import SecretsManager  # noqa: PLC0415
    from frazil.cli.clients import new_id  # noqa: PLC0415
    from frazil.doctor.examine import ProcessEnvironment, examine  # noqa: PLC0415
    from frazil.doctor.finding import Report  # noqa: PLC0415

    environment = ProcessEnvironment(
        os.environ,
        SecretsManager(),
        now=lambda: datetime.now(UTC),
        new_id=new_id,
        local=local_address_in(config),
    )
    findings = []
    for finding in examine(config, environment):
        findings.append(finding)
        if show:
            _print(finding)
    return Report("this machine", tuple(findings))


def _inside(application: str, *, show: bool) -> Report:
    from frazil.adapters.aws.job_runs import EmrServerless  # noqa: PLC0415
    from frazil.cli.clients import new_id  # noqa: PLC0415
    from frazil.doctor.inside import Polling, report_from_inside  # noqa: PLC0415

    polling = Polling(say=lambda line: print(line, file=sys.stderr, flush=True))
    report = report_from_inside(EmrServerless(application), polling, token=f"frazil-doctor-{new_id()}")
    for finding in report.findings if show else ():
        _print(finding)
    return report


def _print(finding: Finding) -> None:
    from frazil.cli.columns import print_line  # noqa: PLC0415

    for line in lines(finding):
        for part in fitting_lines([line], sys.stdout, hanging=len(INDENT)):
            print_line(part, sys.stdout, head=finding.verdict)


def lines(finding: Finding) -> Iterator[str]:
    """Yield a line for the finding, and one for its hint if it has one. Further lines of a text are indented."""
    found = with_config_name(finding.found).replace("\n", f"\n{INDENT}")
    yield f"{finding.verdict:<9}  {finding.part}: {finding.what}: {found}"
    if finding.hint:
        hint = with_config_name(finding.hint).replace("\n", f"\n{INDENT}")
        yield f"{INDENT}hint: {hint}"


def summary(report: Report) -> str:
    counts = ", ".join(f"{count} {verdict}" for verdict, count in report.counts.items() if count)
    return f"\n{report.place}: {plural(len(report.findings), 'check')}: {counts}"
