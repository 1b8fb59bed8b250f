"""`verify` finds a writer's columns by field ids, whatever names ingest went by."""

from __future__ import annotations

import pyarrow as pa

from frazil.verify.placement import ByFieldId


def column(number: int, name: str, kind: pa.DataType | None = None) -> pa.Field:
    return pa.field(name, kind or pa.int64(), metadata={b"PARQUET:field_id": str(number).encode()})


def schema(*columns: pa.Field) -> pa.Schema:
    return pa.schema(list(columns))


ID, UUID = pa.field("id", pa.int64()), pa.field("uuid", pa.int64())


def test_a_name_that_moved_on_to_another_column_leads_to_the_first_one() -> None:
    """After `id` became `legacy_id` and `uuid` became `id`, the name alone leads a late record astray."""
    history = (
        schema(column(1, "id"), column(2, "uuid")),
        schema(column(1, "legacy_id"), column(2, "uuid")),
        schema(column(1, "legacy_id"), column(2, "id")),
    )
    place = ByFieldId(history, history[-1], {"legacy_id": ("id",), "id": ("uuid",)})

    assert place(1, schema(ID, UUID)) == {"legacy_id": "id", "id": "uuid"}
    assert place(3, schema(pa.field("legacy_id", pa.int64()), ID)) == {"legacy_id": "legacy_id", "id": "id"}
    assert place.lost == {}


def test_a_rename_inside_a_list_is_followed() -> None:
    def table(name: str) -> pa.Schema:
        return schema(column(1, "lines", pa.list_(pa.field("element", pa.struct([column(3, name), column(4, "b")])))))

    given = schema(pa.field("lines", pa.list_(pa.struct([pa.field("a", pa.int32())]))))
    place = ByFieldId((table("a"), table("c")), table("c"), {})

    assert place(1, given) == {"lines": "lines", "lines[].c": "a"}
    assert place.lost == {}


def test_a_field_without_a_column_is_told_and_not_raised() -> None:
    place = ByFieldId((schema(column(1, "id"), column(2, "uuid")),), schema(column(1, "id")), {})

    assert place(7, schema(ID, UUID)) == {"id": "id"}
    assert place.lost == {7: ("uuid",)}


def test_a_column_that_was_made_again_is_the_one_that_is_there() -> None:
    history = (
        schema(column(1, "id"), column(2, "uuid")),
        schema(column(1, "id")),
        schema(column(1, "id"), column(3, "uuid")),
    )

    assert ByFieldId(history, history[-1], {})(1, schema(ID, UUID)) == {"id": "id", "uuid": "uuid"}


def test_a_writer_that_is_older_than_the_table_is_found_by_former_names() -> None:
    table = schema(column(1, "legacy_id"))

    assert ByFieldId((table,), table, {"legacy_id": ("id",)})(1, schema(ID)) == {"legacy_id": "id"}
