"""`frazil check`: validate the configuration and the table specs, and find what would prevent materializing."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from frazil.cli.options import DEFAULT_CONFIG, Config, Tables, example, settings_from
from frazil.cli.printed_errors import print_error
from frazil.cli.screen import print_lines
from frazil.cli.transform import described
from frazil.model.columns import Column
from frazil.model.errors import FencedError, FrazilError, SubjectMissingError, TopicMissingError
from frazil.model.exports import ExportSpec
from frazil.model.outputs import OutputSpec
from frazil.model.settings import Settings
from frazil.model.spec import TableSpec
from frazil.model.spelling import plural
from frazil.model.transform_order import following
from frazil.model.transforms import TransformSpec

NOT_THERE_YET = 3
"""The exit status if all that is wrong is that topics or subjects do not exist."""

Check = Callable[[Settings], Iterable[FrazilError]]
"""Returns (or raises) the errors that it finds. It imports slow modules when it is called."""

Offline = Annotated[
    bool,
    typer.Option("--offline", help="Check only the files, without connecting to Kafka, the registry or the catalog."),
]


def what_materialize_would_refuse(settings: Settings) -> Iterable[FrazilError]:
    """Check that broker, registry and catalog answer and that every table can be created or continued."""
    from frazil.adapters.kafka.topics import KafkaTopics  # noqa: PLC0415

    topics = KafkaTopics(settings.kafka)  # connects while the slow import of the catalog's library runs

    from frazil.adapters.iceberg.lake import IcebergLake  # noqa: PLC0415
    from frazil.adapters.registry import open_registry  # noqa: PLC0415
    from frazil.adapters.storage.warehouse_folder import check_warehouse  # noqa: PLC0415
    from frazil.cli.clients import outputs_of  # noqa: PLC0415
    from frazil.materialize.preview.preflight import problems  # noqa: PLC0415

    check_warehouse(settings.catalog)
    with closing(open_registry(settings.registry)) as registry:
        return problems(
            settings.tables,
            lake=IcebergLake(settings.catalog),
            topics=topics,
            registry=registry,
            outputs=outputs_of(settings.kafka, settings.registry),
            tell=_tell,
            remark=lambda line: print(f"note: {line}", file=sys.stderr),
        )


def _tell(line: str) -> None:
    """Print progress on a terminal only: a service that does not answer takes seconds."""
    if sys.stderr.isatty():
        print(line, file=sys.stderr, flush=True)


def what_transformations_would_refuse(settings: Settings) -> Iterator[FrazilError]:
    """Check the queries of transformations against the tables that they read, or that `materialize` would make."""
    if not settings.transforms:
        return
    from frazil.adapters.registry import open_registry  # noqa: PLC0415
    from frazil.cli.transform import opened_in  # noqa: PLC0415
    from frazil.materialize.preview.batch import columns_to_be  # noqa: PLC0415
    from frazil.transforms.checks import note_on_names, problems  # noqa: PLC0415
    from frazil.transforms.preview import missing  # noqa: PLC0415

    folder = Path(settings.source_file).parent
    specs, to_be = {spec.identifier: spec for spec in settings.tables}, dict[str, tuple[Column, ...]]()
    with (
        opened_in(settings, settings.transforms, folder, None) as found,
        closing(open_registry(settings.registry)) as registry,
    ):
        for made in found:
            lacking = [each for each in missing(made) if each not in to_be]
            to_be |= {each: columns_to_be(specs[each], registry) for each in lacking if each in specs}
            if unknown := [each for each in lacking if not to_be.get(each)]:
                what = f"the query of {made.spec.name} is not checked: the columns of {', '.join(unknown)}"
                print(f"note: {what}, which does not exist yet, are not known", file=sys.stderr)
            else:
                yield from problems(made, to_be)
                if note := note_on_names(made.spec.name, to_be.get(made.spec.identifier, ())):
                    print(f"note: {note}", file=sys.stderr)


def what_exports_would_refuse(settings: Settings) -> Iterator[FrazilError]:
    """Check that exports name tables that exist or will, and columns that these have."""
    if not settings.exports:
        return
    from datetime import UTC, datetime  # noqa: PLC0415

    from frazil.adapters.iceberg.lake import IcebergLake  # noqa: PLC0415
    from frazil.exports.checks import problems  # noqa: PLC0415

    letters = {spec.dead_letters_identifier for spec in settings.tables}
    to_be = {spec.identifier for spec in settings.tables} | {spec.identifier for spec in settings.transforms} | letters
    yield from problems(settings.exports, IcebergLake(settings.catalog), to_be=to_be, now=datetime.now(UTC))


def what_columns_would_refuse(settings: Settings) -> Iterator[FrazilError]:
    """Check the columns that keys of a spec name, for tables whose spec declares all columns."""
    from frazil.materialize.preview.declared_columns import problems_of_declared  # noqa: PLC0415

    for spec in settings.tables:
        yield from problems_of_declared(spec)


CHECKS: tuple[Check, ...] = (
    what_materialize_would_refuse,
    what_transformations_would_refuse,
    what_exports_would_refuse,
)
"""The checks beyond the files, in this order."""
OFFLINE_CHECKS: tuple[Check, ...] = (what_columns_would_refuse,)
"""The checks instead of these that need no service."""


def register(app: typer.Typer) -> None:
    examples = example("frazil check", "frazil check orders", "frazil check --offline")
    app.command("check", epilog=examples)(check)


def check(tables: Tables = None, offline: Offline = False, config: Config = DEFAULT_CONFIG) -> None:
    """Check the configuration, the specs and what they name.

    Every problem is shown at once. The exit status is 3 if only topics or subjects are missing, which a producer may
    yet create.
    """
    from frazil.specs.select import select_tables  # noqa: PLC0415

    settings = settings_from(config)
    settings = replace(settings, tables=select_tables(settings, tables or ()))
    named = {spec.identifier for spec in settings.tables}
    exports = tuple(each for each in settings.exports if not tables or each.table in named)
    settings = replace(settings, transforms=following(settings.transforms, named), exports=exports)
    findings = find_problems(settings, OFFLINE_CHECKS if offline else CHECKS)
    summary = (*summarise(settings.tables), *summarise_exports(exports), *summarise_transforms(settings.transforms))
    print_lines(summary, sys.stdout)
    count = f"{settings.source_file}: {plural(len(settings.tables), 'table')}"
    if are_not_there_yet(findings):
        print_error(together(findings))
        print(f"\n{count}, no other problems found.", file=sys.stderr)
        raise typer.Exit(NOT_THERE_YET)
    if findings:
        raise together(findings)
    print(f"{count}, no problems found.", file=sys.stderr)


def are_not_there_yet(findings: Sequence[FrazilError]) -> bool:
    """Return whether there are findings, and all are topics or subjects that do not exist."""
    return bool(findings) and all(isinstance(each, TopicMissingError | SubjectMissingError) for each in findings)


def find_problems(settings: Settings, checks: Iterable[Check]) -> list[FrazilError]:
    """Run all checks and return their errors, each once. A failed check does not prevent the others."""
    found = [finding for each in checks for finding in _findings(each, settings)]
    return list({finding.what: finding for finding in found}.values())


def _findings(ask: Check, settings: Settings) -> Iterator[FrazilError]:
    try:
        yield from ask(settings)
    except FrazilError as error:
        yield error


def together(findings: Sequence[FrazilError], *, says: str = "", command: str = "frazil check") -> FrazilError:
    """Return one error for all: a single one itself, or a list with the hint below each finding.

    If another process took over every table, there is nothing to fix: their common hint is the only one.
    """
    if len(findings) == 1:
        return findings[0]
    kinds = {type(finding) for finding in findings}
    kind = kinds.pop() if len(kinds) == 1 else FrazilError
    title = says or f"The check found {len(findings)} problems."
    if kind is FencedError:
        listed = "\n".join(f"{kind.__name__}: {finding.what}" for finding in findings)
        return kind(f"{title}\n\n{listed}", hint=findings[0].hint)
    listed = "\n".join(f"{type(finding).__name__}: {finding.what}\n    {finding.hint}" for finding in findings)
    return kind(f"{title}\n\n{listed}", hint=f"run `{command}` again after fixing them{_unless_fenced(findings)}")


def _unless_fenced(findings: Sequence[FrazilError]) -> str:
    fenced = any(isinstance(finding, FencedError) for finding in findings)
    return "; leave a table with FencedError to the other process" if fenced else ""


def summarise(tables: Iterable[TableSpec]) -> Iterator[str]:
    """Yield one line per table: its name, its topics and formats, and the file of its spec."""
    for spec in tables:
        partitions = ", ".join(spec.partition_by) or "nothing"
        order = f", sorted by {', '.join(spec.sort_by)}" if spec.sort_by else ""
        orders = "valid from" if spec.keeps_history else "newest by"
        newest = f", {orders} {', '.join(spec.order)}" if spec.order else ""
        identity = f" by {', '.join(spec.identity)}" if spec.identity else ""
        where = "" if spec.group is None or spec.group.has_shapes else f" ({spec.group.route_of(spec.table)})"
        yield (
            f"{spec.identifier} <- {', '.join(spec.topics)}{where}: {spec.write}{identity} {spec.value}, "
            f"key {spec.key}, partitioned by {partitions}{order}{newest} ({spec.source_file})"
        )
        yield from summarise_outputs(spec.identifier, spec.outputs)


def summarise_outputs(table: str, outputs: Iterable[OutputSpec], no_key: str = "no key") -> Iterator[str]:
    for output in outputs:
        key = f"key {', '.join(output.key)}" if output.key else no_key
        yield f"{table} -> {output.topic}: {key}, {plural(output.shards, 'shard')}"


def summarise_transforms(transforms: Iterable[TransformSpec]) -> Iterator[str]:
    for each in transforms:
        yield described(each)
        yield from summarise_outputs(each.identifier, each.outputs, "its groups as the key, if there are any")


def summarise_exports(exports: Iterable[ExportSpec]) -> Iterator[str]:
    """Yield one line per export: its name, its table, which rows, and where they go."""
    for each in exports:
        window = each.window
        rows = "new rows" if window is None else f"each {window.every} by {window.column} ({window.time_zone})"
        yield f"export {each.name} <- {each.table}: {rows}, {each.format} to {each.to} ({each.source_file})"
