"""Tables of values without a registered schema: whole batches, without a registry."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from values_of_tables import spec
from whole_batches import World

from frazil.adapters.iceberg.lake import IcebergLake
from frazil.adapters.registry import NoRegistry
from frazil.materialize.outcome import Published
from frazil.materialize.pause.excluding import change_excluded
from frazil.materialize.preview.explain import explain, lines
from frazil.model.errors import BadRecordLimitError, IncompatibleSchemaError, Misuse, SpecChangeError
from frazil.model.settings import CatalogSettings
from frazil.model.spec import BadRecordLimit, FormatSettings, MetadataColumns, TableSpec
from frazil.peek import peek
from frazil.proof.verification import FindingKind, Verification
from frazil.verify.against_kafka import KafkaSide
from frazil.verify.table import verify_table

ORDER, SPACED = b'{"id": 1}', b' {"id":\t2}\n'


@pytest.fixture
def world(tmp_path: Path) -> World:
    lake = IcebergLake(CatalogSettings("jdbc", str(tmp_path / "warehouse")))
    return World(lake, registry=cast(Any, NoRegistry()))


def made(world: World, wanted: TableSpec, *values: bytes | None) -> TableSpec:
    world.values = list(cast(Any, values))
    assert isinstance(world.table(wanted).batch(), Published)
    return wanted


def rows(world: World, wanted: TableSpec, *names: str) -> list[tuple[object, ...]]:
    view = world.lake.load(wanted.identifier)
    assert view is not None
    found = view.current.scan().to_arrow().sort_by("kafka_offset").select(list(names)).to_pydict()
    return list(zip(*found.values(), strict=True))


def dead(world: World, wanted: TableSpec, *names: str) -> list[tuple[object, ...]]:
    view = world.lake.load(wanted.dead_letters_identifier)
    assert view is not None
    found = view.current.scan().to_arrow().sort_by("offset").select(list(names)).to_pydict()
    return list(zip(*found.values(), strict=True))


def verified(world: World, wanted: TableSpec) -> Verification:
    return verify_table(world.lake, wanted, kafka=KafkaSide(world.topics, cast(Any, world), world.registry))


@pytest.mark.parametrize(
    ("word", "sent", "stored", "refused"),
    [
        ("json", [ORDER, SPACED], [ORDER.decode(), SPACED.decode()], {b"{": "bad_json", b"\xff": "bad_utf8"}),
        ("string", [ORDER, b"", "é".encode()], [ORDER.decode(), "", "é"], {b"\xff": "bad_utf8"}),
        ("bytes", [ORDER, b"", b"\xff", b"\0\0\0\0\1"], [ORDER, b"", b"\xff", b"\0\0\0\0\1"], {}),
    ],
)
def test_values_become_one_column_and_what_it_cannot_hold_dead_letters(
    world: World, word: str, sent: list[bytes], stored: list[object], refused: dict[bytes, str]
) -> None:
    table = made(world, spec(value=word), *sent, None, *refused)

    assert rows(world, table, "value", "kafka_schema_id") == [(each, None) for each in (*stored, None)]
    expected = [(value, reason, None) for value, reason in refused.items()]
    assert dead(world, table, "value", "reason", "schema_id") == expected
    assert verified(world, table).clean
    assert world.check(table) == []


def test_a_record_without_a_header_has_no_schema_id_in_any_column(world: World) -> None:
    """These bytes name the schema 1 in the registry's wire format."""
    table = made(world, spec(value="json", on_tombstone="dead_letter"), b"\0\0\0\0\1{}", None)

    assert dead(world, table, "reason", "schema_id") == [("bad_json", None), ("null_value", None)]


def test_a_changed_row_is_found_by_comparing_it_with_kafka(world: World) -> None:
    table = made(world, spec(value="json"), ORDER, SPACED)
    loaded = world.lake.catalog.load_table(table.identifier)
    held = loaded.scan().to_arrow()
    at = held.column_names.index("value")
    loaded.overwrite(held.set_column(at, held.field(at), pc.replace_substring(held["value"], "1", "7")))

    findings = [each for check in verified(world, table).checks for each in check.findings]

    assert [(each.kind, each.offsets) for each in findings if each.kind is FindingKind.DIFFERENT_ROW] == [
        (FindingKind.DIFFERENT_ROW, (0,))
    ]


def test_a_column_that_another_writer_renames_is_made_again(world: World) -> None:
    table = made(world, spec(value="string"), b"a")
    loaded = world.lake.catalog.load_table(table.identifier)
    loaded.update_schema().rename_column("value", "text").commit()

    assert "  add column value: string" in lines(explain(world.table(table)))
    world.values.append(b"b")
    assert isinstance(world.table(table).batch(), Published)

    assert rows(world, table, "text", "value") == [("a", None), (None, "b")]
    assert verified(world, table).clean


def test_explain_shows_the_columns_and_names_no_schemas(world: World) -> None:
    world.values = [ORDER]
    shown = list(lines(explain(world.table(spec(value="json", partition_by=("truncate(4, value)",))))))

    assert "  new table: value: string" in shown
    assert shown[-1] == "  on the new table's first snapshot"


def test_the_format_of_an_existing_table_stays(world: World) -> None:
    made(world, spec(value="string"), b"a")

    for other in ("bytes", "json"):
        with pytest.raises(SpecChangeError, match=f"value: string -> {other}: the table's columns were made for"):
            world.table(spec(value=other)).batch()
        assert any("the table's columns were made for" in each.what for each in world.check(spec(value=other)))


def test_a_table_of_a_schema_does_not_become_one_without(tmp_path: Path) -> None:
    world = World(IcebergLake(CatalogSettings("jdbc", str(tmp_path / "warehouse"))))
    world.registry.register("orders-value", '{"type": "record", "name": "R", "fields": [{"name": "n", "type": "int"}]}')
    made(world, spec(), b"\0\0\0\0\1\2")
    world.registry = cast(Any, NoRegistry())

    (problem,) = world.check(spec(value="json"))

    assert isinstance(problem, SpecChangeError)
    with pytest.raises(SpecChangeError):
        world.table(spec(value="json")).batch()


def test_too_many_bad_values_pause_the_table(world: World) -> None:
    world.values = [b"{", b"["]

    with pytest.raises(BadRecordLimitError):
        world.table(spec(value="json", bad_record_limit=BadRecordLimit(share=0.05, at_least=2))).batch()


def test_a_json_key_is_text_and_another_key_makes_its_record_a_dead_letter(world: World) -> None:
    world.keys = {0: b'"k"', 1: b"k", 2: b"\xff"}

    table = made(world, spec(key="json", value="bytes"), b"1", b"2", b"3", b"4")

    assert rows(world, table, "kafka_key", "value") == [('"k"', b"1"), (None, b"4")]
    assert dead(world, table, "reason", "detail") == [
        ("bad_key", "bad_json: Expecting value at character 0"),
        ("bad_key", "bad_utf8: invalid start byte at byte 0"),
    ]
    assert verified(world, table).clean


def test_the_value_as_metadata_is_another_column(world: World) -> None:
    table = made(world, spec(value="string", metadata=MetadataColumns(keep=("partition", "offset", "value"))), b"a")

    assert rows(world, table, "value", "kafka_value") == [("a", b"a")]


def test_no_schema_can_be_excluded_from_a_table_without_schemas(world: World) -> None:
    table = made(world, spec(value="string"), b"a")

    with pytest.raises(Misuse, match="reads no registered schema: value is string, key is string"):
        change_excluded(world.lake, world.registry, table, exclude=[1])


COLUMNS = """{"id": "long", "price": "decimal(10, 2)", "at": "timestamp_millis", "items": [{"sku": "string"}],
 "tags": {"*": "json"}}"""
DECLARED = spec(value="json", value_settings=FormatSettings(fields=COLUMNS))


def test_declared_fields_become_columns_and_all_others_stay_in_one(world: World) -> None:
    full = (
        b'{"id": 1, "price": 1.5, "at": 1000, "items": [{"sku": "a", "n": 2}], "tags": {"x": [1]}, "more": {"y": null}}'
    )
    table = made(
        world, DECLARED, full, b'{"id": 2.0}', None, b'{"id": "3"}', b"[]", b'{"id": 1, "id": 2}', b"{", b"\xff"
    )

    assert rows(world, table, "id", "price", "at", "items", "tags", "_extra") == [
        (
            1,
            Decimal("1.50"),
            datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC),
            [{"sku": "a"}],
            [("x", "[1]")],
            '{"items[0].n":2,"more":{"y":null}}',
        ),
        (2, None, None, None, None, None),
        (None, None, None, None, None, None),
    ]
    assert dead(world, table, "reason", "path") == [
        ("wrong_type", "id"),
        ("wrong_type", ""),
        ("duplicate_key", "id"),
        ("truncated", ""),
        ("bad_json", ""),
    ]
    assert verified(world, table).clean
    assert world.check(table) == []


def test_the_order_of_declared_columns_does_not_matter_to_an_existing_table(world: World) -> None:
    made(world, spec(value="json", value_settings=FormatSettings(fields='{"a": "int", "b": "int"}')), b'{"a": 1}')
    other = spec(value="json", value_settings=FormatSettings(fields='{"b": "int", "a": "int"}'))

    assert world.check(other) == []
    assert explain(world.table(other)).spec_changes == ()


def test_a_changed_declaration_is_refused_and_rows_are_verified_with_the_tables_own(world: World) -> None:
    made(world, DECLARED, b'{"id": 1, "m": 2}')
    wider = spec(value="json", value_settings=FormatSettings(fields='{"id": "long", "m": "int"}'))

    with pytest.raises(SpecChangeError, match="existing rows may have m among their undeclared fields"):
        world.table(wider).batch()

    assert verified(world, wider).clean


def test_a_declared_time_is_refused_if_spark_must_read_it(world: World) -> None:
    world.values = [b"{}"]
    timed = spec(value="json", readers=("spark",), value_settings=FormatSettings(fields='{"opens": "time"}'))

    (problem,) = world.check(timed)

    assert "opens: is a time, which Spark cannot read" in problem.what
    with pytest.raises(IncompatibleSchemaError, match="Spark cannot read"):
        world.table(timed).batch()


def test_peek_shows_declared_columns(world: World) -> None:
    world.values = [b'{"id": 1, "m": 2}']
    (facts,) = world.topics.facts.values()

    (found,) = peek(cast(Any, world), None, facts, 1, spec=DECLARED)

    assert (found.columns["id"], found.columns["_extra"]) == (1, '{"m":2}')


def test_the_table_has_the_types_that_readers_expect(world: World) -> None:
    made(world, spec(value="bytes"), b"a")

    held = world.lake.catalog.load_table("lake.orders").scan().to_arrow()

    assert held.schema.field("value").type in (pa.large_binary(), pa.binary())
