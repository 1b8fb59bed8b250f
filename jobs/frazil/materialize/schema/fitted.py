"""The table's own record of the writer schemas that it has columns for, so that a start compares only what changed.

A schema is known by a hash of its text, what it was compared with by a hash of all that a comparison depends on. The
record is stored with each batch. If it is missing or differs, the schemas are compared again, which is always safe.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import fields
from functools import cache, lru_cache
from importlib.resources import files
from importlib.resources.abc import Traversable

from frazil.materialize.changed_spec.applied_spec import SPEC_PROPERTY, ever_kept
from frazil.materialize.maintenance.request import MAINTENANCE_PREFIX
from frazil.materialize.pause.pausing import ACCEPTED_PROPERTY, PAUSED_PROPERTY
from frazil.materialize.replay.request import REQUEST_PREFIX
from frazil.model.plan import WriterSchemas
from frazil.model.progress import Fitted
from frazil.model.schemas import RegisteredSchema
from frazil.model.snapshot import TableView
from frazil.model.spec import TableSpec

NO_MATTER = ("source_file", "trigger", "maintain", "start", "on_bad_record", "bad_record_limit")
"""Fields of a spec on which no comparison depends; a job run reads its specs from another folder at each start."""

DECIDES = ("formats", "materialize", "model")
"""Folders of the package whose code maps schemas to columns and compares them with a table."""


def fitted(spec: TableSpec, view: TableView, schemas: WriterSchemas) -> Fitted:
    """The record for schemas that the table, as viewed, has been seen to have columns for."""
    return Fitted(
        table=_table_hash(spec, view),
        values={schema_id: _schema_hash(schema) for schema_id, schema in schemas.values.items()},
        keys={schema_id: _schema_hash(schema) for schema_id, schema in schemas.keys.items()},
    )


def still_fitting(known: Fitted | None, spec: TableSpec, view: TableView, candidates: WriterSchemas) -> WriterSchemas:
    """Return the candidates that the record proves to need no comparison."""
    if known is None or known.table != _table_hash(spec, view):
        return WriterSchemas({}, {})
    return WriterSchemas(
        {n: each for n, each in candidates.values.items() if known.values.get(n) == _schema_hash(each)},
        {n: each for n, each in candidates.keys.items() if known.keys.get(n) == _schema_hash(each)},
    )


def _table_hash(spec: TableSpec, view: TableView) -> str:
    own = {name: value for name, value in view.properties.items() if name.startswith("frazil.")}
    decisive_names = own.keys() - {PAUSED_PROPERTY, ACCEPTED_PROPERTY, SPEC_PROPERTY}
    requests = (REQUEST_PREFIX, MAINTENANCE_PREFIX)
    remembered = sorted((name, own[name]) for name in decisive_names if not name.startswith(requests))
    kept = ever_kept(spec, view.properties)
    decisive = {each.name: getattr(kept, each.name) for each in fields(kept) if each.name not in NO_MATTER}
    parts = [rules(), repr(decisive), spec.key, view.uuid, view.schema_json, view.partition_spec_json, remembered]
    return _hash(json.dumps(parts))


@cache
def rules() -> str:
    """Return a hash of the comparing code: a release that changes it compares all schemas again."""
    return hash_of(files("frazil"))


def hash_of(package: Traversable) -> str:
    """Return a hash of the sources in `package` that decide; it may be a folder or in a zip."""
    return _hash("".join(text for name in DECIDES for text in _sources(package / name)))


def _sources(folder: Traversable) -> Iterator[str]:
    for each in sorted(folder.iterdir(), key=lambda each: each.name):
        if each.is_dir():
            yield from _sources(each)
        elif each.name.endswith(".py"):
            yield each.read_text(encoding="utf-8")


@lru_cache(maxsize=10_000)
def _schema_hash(schema: RegisteredSchema) -> str:
    return _hash(json.dumps([schema.format, schema.text, *((each.name, each.text) for each in schema.references)]))


def _hash(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()
