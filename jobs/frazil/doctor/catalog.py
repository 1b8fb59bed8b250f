"""Check that the Iceberg catalog answers and that each table can be loaded."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from frazil.adapters.iceberg.lake import IcebergLake
from frazil.adapters.storage.probe import bounded
from frazil.adapters.storage.warehouse_folder import CATALOG_FILE
from frazil.doctor.asking import Asking
from frazil.doctor.configuration import lacks_a_secret
from frazil.doctor.finding import Finding, not_asked
from frazil.doctor.ways import SLACK_SECONDS
from frazil.model.errors import CatalogError, FrazilError
from frazil.model.settings import CatalogSettings
from frazil.model.snapshot import TableView
from frazil.model.spec import TableSpec
from frazil.model.spelling import plural
from frazil.ports import Lake

NOT_MADE = "not created yet"
MAKES_IT = "`frazil materialize` creates it"
FILE_SECONDS = 60.0
"""The time limit of a check of a catalog in a file, which no network keeps waiting."""
LAKE_FORMATION = "Lake Formation permission"
"""Part of Glue's message if Lake Formation refuses: `Insufficient Lake Formation permission(s): Required …`."""


@dataclass(frozen=True, slots=True)
class Listed:
    """The results for the catalog: findings, and the loaded tables by name."""

    findings: tuple[Finding, ...]
    views: Mapping[str, TableView]


def ask_catalog(catalog: CatalogSettings, database: str, specs: Sequence[TableSpec], asking: Asking) -> Listed:
    names = tables_of(specs)
    if lacks_a_secret(catalog.all_properties):
        return _unasked(names, "a secret of `catalog` is missing")
    if catalog.type == "jdbc" and not (Path(catalog.warehouse) / CATALOG_FILE).exists():
        none = Finding("catalog", CATALOG_FILE, "ok", f"{NOT_MADE}: {MAKES_IT}")
        return Listed((none, *_unasked(names, "there is no catalog yet").findings), {})
    lake = IcebergLake(replace(catalog, properties={**bounded(asking.seconds), **catalog.properties}))
    patient = _on_disk(asking) if catalog.type == "jdbc" else replace(asking, seconds=asking.seconds + SLACK_SECONDS)
    opened = patient.ask(catalog.type, lambda: _opened(lake, catalog))
    if opened.verdict == "failed":
        return Listed((opened, *_unasked(names, "the catalog cannot be opened").findings), {})
    databases = dict.fromkeys((database, *(spec.database for spec in specs)))
    answers = [patient.ask(f"database {name}", lambda name=name: _database(lake, name)) for name in databases]  # type: ignore[misc]
    if any(answer.is_silence for answer in answers):
        return Listed((opened, *answers, *_unasked(names, "the catalog does not answer").findings), {})
    tables = ask_tables(lake, names, patient)
    return Listed((opened, *answers, *tables.findings, *_changes(catalog)), tables.views)


def _on_disk(asking: Asking) -> Asking:
    """Return more time for a catalog in a file: a busy machine takes long to import the libraries."""
    hint = f"the catalog is a file: check what else uses {CATALOG_FILE} or its disk, and how busy this machine is"
    return replace(asking, seconds=max(asking.seconds, FILE_SECONDS), if_silent=hint)


def tables_of(specs: Sequence[TableSpec]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for spec in specs for name in (spec.identifier, spec.dead_letters_identifier)))


def ask_tables(lake: Lake, names: Sequence[str], asking: Asking) -> Listed:
    views: dict[str, TableView] = {}

    def load(name: str) -> str:
        try:
            view = lake.load(name)
        except CatalogError as problem:
            raise CatalogError(problem.what, hint=_hint(problem, "glue:GetTable", name)) from problem
        if view is None:
            return f"{NOT_MADE}: {MAKES_IT}"
        views[name] = view
        count = len(view.snapshots)
        return f"loaded, {plural(count, 'snapshot')}, in {view.location}"

    findings: list[Finding] = []
    for number, name in enumerate(names):
        findings.append(asking.ask(f"table {name}", lambda name=name: load(name)))  # type: ignore[misc]
        if findings[-1].is_silence:
            findings += _unasked(names[number + 1 :], "the catalog or its storage did not answer before").findings
            break
    return Listed(tuple(findings), views)


def _opened(lake: IcebergLake, catalog: CatalogSettings) -> str:
    return f"opened by {type(lake.catalog).__name__.removeprefix('Quick')} at {catalog.address}"


def _database(lake: IcebergLake, name: str) -> str:
    try:
        there = lake.catalog.namespace_exists(name)
    except FrazilError:
        raise
    except Exception as problem:
        failure = CatalogError(f"cannot be looked up: {type(problem).__name__}: {problem}", hint="")
        raise CatalogError(failure.what, hint=_hint(failure, "glue:GetDatabase", name)) from problem
    return "there" if there else f"{NOT_MADE}: {MAKES_IT}"


def _hint(problem: FrazilError, action: str, name: str) -> str:
    if LAKE_FORMATION in problem.what:
        return (
            "Lake Formation controls access, as IAMAllowedPrincipals has no grants: set `lake: "
            "{lake_formation: true}` in the environment's file and run `scripts/deploy.sh create`, or grant "
            f"DESCRIBE and SELECT on {name} in Lake Formation to the AWS identity shown above"
        )
    if "AccessDenied" in problem.what:
        return f"grant {action} on {name} and its catalog and database to the AWS identity shown above"
    if "ACCESS_DENIED" in problem.what:
        return "grant s3:GetObject on the warehouse and kms:Decrypt on its key to the AWS identity shown above"
    return problem.hint or "check the region, endpoint and credentials: `catalog`, AWS_REGION, AWS_PROFILE"


def _changes(catalog: CatalogSettings) -> Iterator[Finding]:
    if catalog.type == "glue":
        why = "only a commit can check this: it needs glue:CreateTable and glue:UpdateTable"
        yield not_asked("catalog", "changing tables", why)


def _unasked(names: Sequence[str], why: str) -> Listed:
    return Listed(tuple(not_asked("catalog", f"table {name}", why) for name in names), {})
