"""The fields that a table's route compares, in the schemas of its records."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from frazil.formats.open import map_schema
from frazil.model.columns import Column, ColumnType, Decimal, Scalar, Struct
from frazil.model.errors import IncompatibleSchemaError
from frazil.model.policies import NO_POLICIES
from frazil.model.schemas import RegisteredSchema
from frazil.model.spec import TableSpec
from frazil.model.spelling import did_you_mean

COMPARED = ("string", "boolean", "int", "long")


def note_on_fields(spec: TableSpec, schemas: Iterable[RegisteredSchema]) -> str | None:
    """Return a note if none of the schemas has a field that the table's route compares: it may be misspelt.

    Nothing is said of schemas that cannot become columns: another error is about these.
    """
    fields = () if spec.group is None else spec.group.route_of(spec.table).fields
    settings = replace(spec.value_settings, policies=NO_POLICIES, hash_key=None)
    try:
        mapped = [map_schema(schema, settings).columns for schema in schemas] if fields else []
    except IncompatibleSchemaError:
        return None
    names = sorted({name for columns in mapped for name in _compared(columns)})
    unknown = [field.path for field in fields if field.path not in names]
    if not mapped or not unknown:
        return None
    likely = did_you_mean(unknown[0], names)
    return (
        f"no schema that the registry has now has the field {', '.join(unknown)} of the route, or only with a type that"
        f" routes do not compare, so the route takes no record: correct `field` in {spec.source_file} if it is misspelt"
        + (f" (did you mean {likely}?)" if likely else "")
    )


def _compared(columns: Sequence[Column], within: str = "") -> Iterator[str]:
    """Yield the paths of the fields that have a type that routes compare."""
    for column in columns:
        if isinstance(column.type, Struct):
            yield from _compared(column.type.columns, f"{within}{column.name}.")
        elif _has_text(column.type):
            yield f"{within}{column.name}"


def _has_text(kind: ColumnType) -> bool:
    return (isinstance(kind, Scalar) and kind.name in COMPARED) or (isinstance(kind, Decimal) and kind.scale == 0)
