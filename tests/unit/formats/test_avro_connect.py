"""The names that Kafka Connect gives to types in Avro schemas."""

from __future__ import annotations

from typing import Any

from avro_samples import parsed, text_of

from frazil.formats.avro.connect import connect_types
from frazil.formats.avro.mapping import map_schema
from frazil.formats.avro.schema import parse_schema
from frazil.formats.connect import ConnectType

DATE = {"type": "int", "connect.version": 1, "connect.name": "io.debezium.time.Date"}
ENUM = {"type": "string", "connect.parameters": {"allowed": "a,b"}, "connect.name": "io.debezium.data.Enum"}


def record(name: str, **fields: Any) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": [{"name": each, "type": kind} for each, kind in fields.items()]}


ROW = record(
    "Value",
    day=DATE,
    state=["null", ENUM],
    days={"type": "array", "items": ["null", DATE]},
    where={**record("Point", x="double"), "connect.name": "io.debezium.data.geometry.Point"},
    plain="int",
)
ENVELOPE = record("Envelope", before=["null", ROW], after=["null", "Value"], op="string")


def test_named_types_are_found_by_path_in_each_use_of_a_record() -> None:
    row = {
        "day": ConnectType("io.debezium.time.Date"),
        "state": ConnectType("io.debezium.data.Enum", (("allowed", "a,b"),)),
        "days[]": ConnectType("io.debezium.time.Date"),
        "where": ConnectType("io.debezium.data.geometry.Point"),
    }

    found = connect_types(parsed(ENVELOPE))

    assert found == {f"{side}.{path}": kind for side in ("before", "after") for path, kind in row.items()}


def test_a_schema_read_again_has_the_same_named_types() -> None:
    first, again = parsed(ENVELOPE), parse_schema(text_of(ENVELOPE))

    assert connect_types(first) == connect_types(again)


def test_a_record_inside_itself_is_entered_once() -> None:
    found = connect_types(parsed(record("Node", day=DATE, next=["null", "Node"])))

    assert list(found) == ["day"]


def test_unions_of_several_types_and_maps_are_left_out() -> None:
    found = connect_types(parsed(record("Row", either=[DATE, "string"], by_name={"type": "map", "values": DATE})))

    assert found == {}


def test_names_have_no_effect_on_columns_and_on_the_text_that_schemas_are_compared_by() -> None:
    unnamed = record("Row", day={"type": "int"})
    named = record("Row", day=DATE)

    assert map_schema(parsed(named)) == map_schema(parsed(unnamed))
    assert parsed(named) == parsed(unnamed)


def test_a_name_that_is_no_text_is_ignored() -> None:
    given = record("Row", a={"type": "int", "connect.name": 1}, b={**DATE, "connect.parameters": {"x": 1, "y": "2"}})

    assert connect_types(parsed(given)) == {"b": ConnectType("io.debezium.time.Date", (("y", "2"),))}
