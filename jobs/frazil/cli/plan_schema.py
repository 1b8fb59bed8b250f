"""`frazil plan-schema`: what a schema would change in a table, before it is registered."""

from __future__ import annotations

import json
import sys
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from frazil.cli.options import DEFAULT_CONFIG, Config, Json, example, settings_from
from frazil.cli.screen import print_lines
from frazil.model.errors import Misuse, SubjectMissingError

if TYPE_CHECKING:
    from frazil.model.schemas import RegisteredSchema, SchemaType
    from frazil.model.spec import TableSpec
    from frazil.ports import SchemaRegistry

Table = Annotated[str, typer.Argument(metavar="TABLE", help="A table as `table` or `database.table`.")]
SchemaFile = Annotated[
    Path | None,
    typer.Option("--schema", metavar="FILE", help="The schema, or the request that registers it, with its references."),
]
Version = Annotated[
    int | None, typer.Option("--subject-version", metavar="N", min=1, help="A version of the subject instead.")
]
Subject = Annotated[
    str | None,
    typer.Option("--subject", metavar="NAME", help="The subject of that version, if the table has several."),
]
OfKey = Annotated[bool, typer.Option("--key", help="The schema is one of keys.")]


def register(app: typer.Typer) -> None:
    examples = (
        "frazil plan-schema orders --schema order.avsc",
        "frazil plan-schema lake.orders --subject-version 7",
        "frazil plan-schema orders --schema order.avsc --json",
    )
    app.command("plan-schema", epilog=example(*examples))(plan_schema)


def plan_schema(
    table: Table,
    schema: SchemaFile = None,
    subject_version: Version = None,
    subject: Subject = None,
    key: OfKey = False,
    as_json: Json = False,
    config: Config = DEFAULT_CONFIG,
) -> None:
    """Show what a writer schema would change in a table.

    Nothing is written or registered. The exit status is 1 if the table could not hold records with the schema, so a
    producer's build can refuse it before it is registered; 2 if the file is not a schema.
    """
    from frazil.adapters.iceberg.lake import IcebergLake  # noqa: PLC0415
    from frazil.adapters.registry import open_registry  # noqa: PLC0415
    from frazil.materialize.preview.candidate import lines  # noqa: PLC0415
    from frazil.materialize.preview.candidate import plan_schema as plan_for  # noqa: PLC0415
    from frazil.specs.select import select_own_table  # noqa: PLC0415

    if (schema is None) is (subject_version is None):
        raise Misuse("exactly one of --schema and --subject-version must be given", hint="name a file or a version")
    settings = settings_from(config)
    spec = select_own_table(settings, table)
    wanted = _schema_type(spec, of_key=key)
    with closing(open_registry(settings.registry)) as registry:
        if schema is not None:
            kind = f"{spec.identifier} has {f'key: {spec.key}' if key else f'value: {spec.value}'}"
            called, candidate = f"the schema in {schema}", _in_file(registry, schema, wanted, kind)
        else:
            assert subject_version is not None  # noqa: S101 - checked above
            of = subject or _subject_of(spec, of_key=key)
            called, candidate = f"version {subject_version} of {of}", _version(registry, of, subject_version)
        plan = plan_for(IcebergLake(settings.catalog), registry, spec, candidate, of_key=key)
    if as_json:
        print(json.dumps(plan.to_json(), indent=2))
    else:
        print_lines(lines(plan), sys.stdout)
    refusal = plan.refusal(called)
    if refusal is not None:
        raise refusal


def _schema_type(spec: TableSpec, *, of_key: bool) -> SchemaType:
    from frazil.materialize.layout import reads_keys_by_schema  # noqa: PLC0415

    part, word = ("key", spec.key) if of_key else ("value", spec.value)
    schema_type = spec.key_type if of_key else spec.value_type
    if schema_type is None or (of_key and not reads_keys_by_schema(spec)):
        kept = "" if schema_type is None else ", which is not kept"
        raise Misuse(
            f"{spec.identifier} reads no schema of {part}s: {part} is {word}{kept}",
            hint=f"no schema of {part}s changes the table",
        )
    return schema_type


def _version(registry: SchemaRegistry, subject: str, number: int) -> RegisteredSchema:
    """Return a version of a subject. Raises Misuse if there is none: a build must not take that for a refusal."""
    try:
        return registry.version(subject, number)
    except SubjectMissingError as missing:
        raise Misuse(missing.what, hint=missing.hint) from missing


def _in_file(registry: SchemaRegistry, path: Path, schema_type: SchemaType, kind: str) -> RegisteredSchema:
    """Return the schema in a file. `kind` says which kind the table reads. Raises Misuse for what is no schema."""
    from frazil.formats.open import why_invalid  # noqa: PLC0415
    from frazil.schema_file import read_schema_file  # noqa: PLC0415

    schema = registry.resolve(read_schema_file(path, schema_type))
    problem = why_invalid(schema)
    if problem is not None:
        what = "give a file that the registry would accept: a schema, or the request that registers it, with references"
        raise Misuse(f"{path}: {problem}", hint=f"{kind}; {what}")
    return schema


def _subject_of(spec: TableSpec, *, of_key: bool) -> str:
    """Return the one subject of the table's topics. Raises Misuse if there is no single one."""
    settings = spec.key_subject if of_key else spec.value_subject
    subjects = {settings.of(topic, "key" if of_key else "value") for topic in spec.topics}
    only = subjects.pop() if len(subjects) == 1 else None
    if only is None:
        raise Misuse(f"{spec.identifier} has no single subject", hint="name the subject: --subject NAME")
    return only
