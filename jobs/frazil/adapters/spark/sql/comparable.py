"""DataFrames that Spark compares: it compares no maps, so each map becomes its entries, in the order of their keys."""

from __future__ import annotations

from typing import Any

from frazil.adapters.spark.sql.session import quoted


def without_maps(frame: Any) -> Any:
    """Return the rows with entries for maps, at any depth."""
    from pyspark.sql import functions as F  # noqa: N812, PLC0415 - a second to import

    fields = frame.schema.fields
    return frame.select(*(_entries(F.col(quoted(each.name)), each.dataType).alias(each.name) for each in fields))


def except_all(frame: Any, other: Any) -> Any:
    """Return the rows of a DataFrame without those of another one with the same columns, each taken out once."""
    from pyspark.sql import functions as F  # noqa: N812, PLC0415

    left = without_maps(frame).exceptAll(without_maps(other))
    fields = frame.schema.fields
    return left.select(*(_maps(F.col(quoted(each.name)), each.dataType).alias(each.name) for each in fields))


def _entries(column: Any, kind: Any) -> Any:
    from pyspark.sql import functions as F  # noqa: N812, PLC0415
    from pyspark.sql import types as T  # noqa: N812, PLC0415

    if not _has_map(kind):
        return column
    if isinstance(kind, T.ArrayType):
        return F.transform(column, lambda each: _entries(each, kind.elementType))
    if isinstance(kind, T.StructType):
        inner = (_entries(column[each.name], each.dataType).alias(each.name) for each in kind.fields)
        return F.when(column.isNotNull(), F.struct(*inner))
    entries = F.transform(
        F.map_entries(column),
        lambda each: F.struct(
            _entries(each["key"], kind.keyType).alias("key"), _entries(each["value"], kind.valueType).alias("value")
        ),
    )
    return F.array_sort(entries)


def _maps(column: Any, kind: Any) -> Any:
    """Return the value of a type of which `_entries` made the column."""
    from pyspark.sql import functions as F  # noqa: N812, PLC0415
    from pyspark.sql import types as T  # noqa: N812, PLC0415

    if not _has_map(kind):
        return column
    if isinstance(kind, T.ArrayType):
        return F.transform(column, lambda each: _maps(each, kind.elementType))
    if isinstance(kind, T.StructType):
        inner = (_maps(column[each.name], each.dataType).alias(each.name) for each in kind.fields)
        return F.when(column.isNotNull(), F.struct(*inner))
    entries = F.transform(
        column,
        lambda each: F.struct(
            _maps(each["key"], kind.keyType).alias("key"), _maps(each["value"], kind.valueType).alias("value")
        ),
    )
    return F.map_from_entries(entries)


def _has_map(kind: Any) -> bool:
    from pyspark.sql import types as T  # noqa: N812, PLC0415

    if isinstance(kind, T.ArrayType):
        return _has_map(kind.elementType)
    if isinstance(kind, T.StructType):
        return any(_has_map(each.dataType) for each in kind.fields)
    return isinstance(kind, T.MapType)
