"""Copy the values of columns that other writers dropped into the columns of the same name that were made again."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.io.pyarrow import ArrowScan
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.types import NestedField

from frazil.adapters.iceberg.former_columns import held_in, leaves_of
from frazil.adapters.iceberg.scan import reading
from frazil.adapters.iceberg.types import from_type
from frazil.model.errors import ForeignTableError


@dataclass(frozen=True, slots=True)
class _Dropped:
    """A column as the newest schema that had it says, and the column that gets its values."""

    field: NestedField
    name: str

    @property
    def read_as(self) -> str:
        return f"frazil_dropped_{self.field.field_id}"


def restore_columns(table: Table, *, give_up: Collection[str] = ()) -> tuple[str, ...]:
    """Restore all dropped columns whose values the table's files still have, in one commit, and return their names.

    A row keeps the value that the present column has; where that is null, it gets the newest earlier one. A dropped
    column that was not made again is added. The commit rewrites the table, which loses the values of every dropped
    field that is not restored: of those, and only those, in `give_up`. Holds the table's rows in memory.

    Raises ForeignTableError, and changes nothing, if the commit would lose other values or if a column was made again
    with another type.
    """
    dropped = _dropped(table)
    _refuse_losses(table, dropped, give_up)
    wanted = [each for each in dropped if each.name not in give_up]
    names = tuple(dict.fromkeys(each.name for each in wanted))
    if names:
        _refuse_other_types(table, wanted)
        _rewrite(table, wanted, names)
    return names


def _dropped(table: Table) -> list[_Dropped]:
    """Columns that the schema no longer has and live files have values of; the one dropped last is the first."""
    held = _held(table) - set(table.schema().field_ids)
    by_id: dict[int, list[NestedField]] = {}
    for schema in sorted(table.metadata.schemas, key=lambda each: each.schema_id):
        for field in schema.fields:
            by_id[field.field_id] = [*by_id.pop(field.field_id, ()), field]
    there = [found for found in by_id.values() if held & set(leaves_of(found[-1]))]
    here = set(table.schema().field_ids)
    return [_Dropped(f[-1], _name_for(table, f)) for f in reversed(there) if f[-1].field_id not in here]


def _name_for(table: Table, field: Sequence[NestedField]) -> str:
    """Of the names that a field had, oldest first: the one that was made again, or else the newest.

    A column may be renamed, made again under its first name, and dropped under the second.
    """
    again = list(dict.fromkeys(each.name for each in field if _present(table.schema(), each.name) is not None))
    if len(again) > 1:
        raise ForeignTableError(
            f"{_identifier(table)}: another writer dropped a column that was called {' and '.join(again)}; the table"
            " has columns of all these names",
            hint="rename all of them but the one that is to get the values, restore, and rename them back",
        )
    return str(again[0] if again else field[-1].name)


def _held(table: Table) -> frozenset[int]:
    with reading(_identifier(table)):
        return held_in(table, [task.file.file_path for task in table.scan().plan_files()])


def _refuse_losses(table: Table, dropped: Sequence[_Dropped], give_up: Collection[str]) -> None:
    kept = {leaf for each in dropped for leaf in leaves_of(each.field)} | set(table.schema().field_ids)
    lost = sorted({_name_of(table, number) for number in _held(table) - kept} - set(give_up))
    if lost:
        raise ForeignTableError(
            f"{_identifier(table)}: restoring columns would lose the values of {', '.join(lost)}, which another writer"
            " dropped",
            hint="to lose them, name the fields in `give_up`: see docs/operate.md, A column that was made again",
        )


def _name_of(table: Table, number: int) -> str:
    """The dotted path of a field in the newest schema that has it, or its id if none has."""
    schemas = sorted(table.metadata.schemas, key=lambda each: each.schema_id, reverse=True)
    return next((name for each in schemas if (name := each.find_column_name(number))), f"field {number}")


def _refuse_other_types(table: Table, wanted: Sequence[_Dropped]) -> None:
    changed = list(_other_types(table.schema(), wanted))
    if changed:
        raise ForeignTableError(
            f"{_identifier(table)}: another writer made columns again with other types: {', '.join(changed)}",
            hint="drop these columns and restore again: they are added with the type that they had",
        )


def _other_types(now: Schema, wanted: Sequence[_Dropped]) -> Iterator[str]:
    for each in wanted:
        target = _target(now, wanted, each.name)
        if from_type(target.field_type) != from_type(each.field.field_type):
            yield f"{each.name} is {target.field_type}, was {each.field.field_type}"


def _target(now: Schema, wanted: Sequence[_Dropped], name: str) -> NestedField:
    """The present column, or the earlier one as which it is added."""
    return _present(now, name) or next(each.field for each in wanted if each.name == name)


def _present(now: Schema, name: str) -> NestedField | None:
    return next((field for field in now.fields if field.name == name), None)


def _rewrite(table: Table, wanted: Sequence[_Dropped], names: Sequence[str]) -> None:
    read_as = [NestedField(each.field.field_id, each.read_as, each.field.field_type) for each in wanted]
    schema = Schema(*table.schema().fields, *read_as)
    with reading(_identifier(table)):
        rows = ArrowScan(table.metadata, table.io, schema, AlwaysTrue()).to_table(table.scan().plan_files())
    restored = _restored(rows, wanted, names)
    with table.transaction() as transaction:
        with transaction.update_schema() as update:
            for name in names:
                if _present(table.schema(), name) is None:
                    update.add_column(name, _target(table.schema(), wanted, name).field_type)
        transaction.overwrite(restored)


def _restored(rows: pa.Table, wanted: Sequence[_Dropped], names: Sequence[str]) -> pa.Table:
    """The rows with the first value that is not null: of the present column, or of an earlier one."""
    columns = {name: rows[name] for name in rows.column_names if name not in {each.read_as for each in wanted}}
    for name in names:
        earlier = [rows[each.read_as] for each in wanted if each.name == name]
        columns[name] = _first_value([*([columns[name]] if name in columns else []), *earlier])
    return pa.table(columns)


def _first_value(columns: Sequence[pa.ChunkedArray]) -> pa.ChunkedArray:
    """Columns that a file lacks and those that it has differ in the width of their offsets: the first decides."""
    kind = columns[0].type
    stored = kind.storage_type if isinstance(kind, pa.BaseExtensionType) else kind  # Arrow coalesces no uuids
    return pc.coalesce(*(each.cast(stored) for each in columns)).cast(kind)


def _identifier(table: Table) -> str:
    return ".".join(table.name())
