"""`verify` finds a writer's columns by field ids, whatever names ingest went by."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa

from frazil.formats.arrow import fit
from frazil.records import Records
from frazil.verify import window
from frazil.verify.letters import LETTER
from frazil.verify.placement import ByFieldId
from frazil.verify.row_comparison import RowComparison, SometimesKept
from frazil.verify.window import PartitionComparison


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


RENAMED = (
    schema(column(1, "offset"), column(2, "x")),
    schema(column(1, "offset"), column(2, "y")),
    schema(column(1, "offset"), column(2, "y"), column(3, "x")),
)
"""Others renamed x to y, and the next batch made x again."""


def test_a_column_that_others_renamed_holds_the_rows_before_it_was_made_again() -> None:
    place = ByFieldId(RENAMED, RENAMED[-1], {})
    given = schema(pa.field("offset", pa.int64()), pa.field("x", pa.int64()))

    assert place(7, given) == {"offset": "offset", "y": "x"}
    assert list(place.later(7)) == [1]
    place.choose(7, 1)
    assert place(7, given) == {"offset": "offset", "x": "x"}
    assert list(place.later(7)) == []


class Decoding:
    """In place of a decoder: records of schema 7 hold the number `x`, which is ten times their offset."""

    def __init__(self) -> None:
        self.placed, self.row_schema = ByFieldId(RENAMED, RENAMED[-1], {}), RENAMED[-1]
        self.compared = self.row_schema.names

    def decode(self, topic: str, partition: int, records: Records) -> Iterator[Any]:
        del topic, partition
        offsets = records.offsets.to_numpy()
        written = pa.RecordBatch.from_pydict({"offset": offsets, "x": offsets * 10})
        rows = fit(written, self.row_schema, self.placed(7, written.schema))
        yield SimpleNamespace(row_offsets=offsets, rows=rows, dead_letters=None, deletes=None, incomplete=())

    def schema_id_of(self, record: Records) -> int:
        assert len(record) == 1
        return 7


def differing_rows(y: Sequence[int | None], x: Sequence[int | None]) -> list[tuple[int, ...]]:
    """The offsets that the comparison names, of a table with these columns."""
    count = len(y)
    stored = pa.RecordBatch.from_pydict({"offset": range(count), "y": pa.array(y, pa.int64()), "x": x}, RENAMED[-1])
    rows = SimpleNamespace(between=lambda column, start, end: [stored])
    nothing = SimpleNamespace(between=lambda column, start, end: [])
    table = RowComparison(("t", 0), cast(Any, rows), "offset", cast(Any, Decoding()), SometimesKept())
    comparison = PartitionComparison(("t", 0), [table], cast(Any, nothing), cast(Any, None), cast(Any, None))
    value = b"\0\0\0\0\x07"
    records = Records.of(range(count), [0] * count, [None] * count, [value] * count, [None] * count, count)
    for chunk in (records.first(2), records.after(2)):
        comparison._chunk(chunk, *_sides(comparison, count))
    return [finding.offsets for finding in comparison.found.differences]


def _sides(comparison: PartitionComparison, count: int) -> Any:
    side = window._side(list(comparison.tables[0].rows.between("offset", 0, count)), "offset", RENAMED[-1])
    return [side], window._side([], "offset", LETTER)


def test_rows_from_before_and_after_a_rename_by_others_are_compared_in_their_own_columns() -> None:
    nothing = None

    assert differing_rows([0, 10, 20, nothing, nothing], [nothing, nothing, nothing, 30, 40]) == []
    assert differing_rows([nothing] * 4, [0, 10, 20, 30]) == []


def test_values_that_were_lost_beside_a_rename_are_found() -> None:
    nothing = None

    assert differing_rows([0, nothing, 20, nothing, nothing], [nothing, nothing, nothing, 30, nothing]) == [(1,), (4,)]
    assert differing_rows([0, 99, 20], [nothing, nothing, nothing]) == [(1,)]
    assert differing_rows([0, nothing, 20], [nothing, 10, nothing]) == [(2,), (2,)]
