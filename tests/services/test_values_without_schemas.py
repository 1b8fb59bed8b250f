"""Topics whose values have no registered schema, from the first look to the proof, with no registry configured."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest
from breadth import Place, Table, catch_up

from frazil.adapters.registry import NoRegistry
from frazil.cli import app

Said = pytest.CaptureFixture[str]

ORDER, ESCAPED = b' {"id": 1.50,\n "id": "\\u00e9"}', b'["\\ud800"]'


@pytest.fixture
def bare(place: Place) -> Place:
    """A configuration without a schema registry."""
    place.settings("topic: a\nvalue: json")
    _without_registry(place)
    return place


def _without_registry(place: Place) -> None:
    file = place.folder / "frazil.yaml"
    written = json.loads(file.read_text(encoding="utf-8"))
    del written["schema_registry"]
    file.write_text(json.dumps(written), encoding="utf-8")


def frazil(place: Place, *arguments: str) -> int:
    return app.run([*arguments, "--config", str(place.folder / "frazil.yaml")])


def materialized(place: Place, spec: str) -> Table:
    run = place.run(spec, registry=NoRegistry(), registry_settings=None)
    _without_registry(place)
    catch_up(run)
    return Table(run)


@pytest.mark.parametrize(
    ("word", "column", "stored", "dead"),
    [
        ("json", "string", [ORDER.decode(), ESCAPED.decode()], ["bad_json", "bad_utf8", "bad_json"]),
        ("string", "string", [ORDER.decode(), ESCAPED.decode(), "{", "\0\0\0\0\1{}"], ["bad_utf8"]),
        ("bytes", "binary", [ORDER, ESCAPED, b"{", b"\xff", b"\0\0\0\0\1{}"], []),
    ],
)
def test_values_are_kept_as_they_are_and_proven(
    bare: Place, capsys: Said, word: str, column: str, stored: list[object], dead: list[str]
) -> None:
    topic = bare.topic()
    bare.send(topic, ORDER, ESCAPED, b"{", b"\xff", b"\0\0\0\0\1{}", None, key=b'{"k": 1}')

    table = materialized(bare, f"topic: {topic}\nvalue: {word}\nkey: json\npartition_by: ['bucket(4, value)']")

    assert table.types["value"] == column
    assert [row["value"] for row in table.rows()] == [*stored, None]
    assert {row["kafka_key"] for row in table.rows()} == {'{"k": 1}'}
    assert {row["kafka_schema_id"] for row in table.rows()} == {None}
    assert [row["reason"] for row in table.dead_letters()] == dead
    assert {row["schema_id"] for row in table.dead_letters()} <= {None}
    if dead:
        capsys.readouterr()
        letter = f"{topic}-0@{len(stored) - 1 if word == 'string' else 2}"
        assert frazil(bare, "dead-letters", "show", topic, letter) == 0, capsys.readouterr()
        said = capsys.readouterr().out
        assert f"{letter}  {dead[0]}: " in said
        assert "not_framed" not in said
    for command in (["check"], ["verify", "--against-kafka"], ["explain"], ["status"]):
        assert frazil(bare, *command) == 0, capsys.readouterr()
    assert "nothing to do" in capsys.readouterr().out


def test_declared_fields_of_json_are_columns(bare: Place, capsys: Said) -> None:
    topic = bare.topic()
    bare.send(
        topic, b'{"id": 1, "at": "2026-01-31T12:00:00Z", "items": [{"sku": "a"}], "note": "x"}', b'{"id": "1"}', None
    )
    fields = "fields: {id: long, at: timestamptz, items: [{sku: string}]}"

    table = materialized(bare, f"topic: {topic}\nvalue: json\n{fields}\npartition_by: [day(at)]")

    assert {name: table.types[name] for name in ("id", "at", "items", "_extra")} == {
        "id": "long",
        "at": "timestamptz",
        "items": "list<struct<sku: string>>",
        "_extra": "string",
    }
    assert table.rows("id", "at", "items", "_extra") == [
        {"id": 1, "at": datetime(2026, 1, 31, 12, tzinfo=UTC), "items": [{"sku": "a"}], "_extra": '{"note":"x"}'},
        {"id": None, "at": None, "items": None, "_extra": None},
    ]
    assert table.dead_letters("reason", "path", "schema_id") == [
        {"reason": "wrong_type", "path": "id", "schema_id": None}
    ]
    for command in (["check"], ["verify", "--against-kafka"], ["peek", topic], ["explain"]):
        assert frazil(bare, *command) == 0, capsys.readouterr()


def test_a_topic_gets_a_spec_that_makes_its_table(bare: Place, capsys: Said) -> None:
    topic = bare.topic()
    bare.send(topic, ORDER, ESCAPED, key=b"k")
    (bare.folder / "tables" / "t00.yaml").unlink()

    assert frazil(bare, "peek", topic, "--json") == 0
    shown = json.loads(capsys.readouterr().out)
    assert [each["value"] for each in shown] == [{"value": ORDER.decode()}, {"value": ESCAPED.decode()}]
    assert frazil(bare, "init", topic) == 0

    (file,) = (bare.folder / "tables").iterdir()
    assert "\nvalue: json\n" in file.read_text(encoding="utf-8")
    assert "# fields:\n" not in file.read_text(encoding="utf-8"), "not all values are objects"
    assert frazil(bare, "explain") == 0
    assert "new table: value: string" in capsys.readouterr().out


def test_delta_readers_see_the_same_rows(bare: Place) -> None:
    from deltalake import DeltaTable  # noqa: PLC0415 - loads slowly

    topic = bare.topic()
    bare.send(topic, ORDER, None)

    table = materialized(bare, f"topic: {topic}\nvalue: json\nformats: [iceberg, delta]")

    found = DeltaTable(table.view.location).to_pyarrow_table().sort_by("kafka_offset")
    assert found["value"].to_pylist() == [ORDER.decode(), None]


def test_doctor_says_that_there_is_no_registry(bare: Place, capsys: Said) -> None:
    topic = bare.topic()
    bare.settings(f"topic: {topic}\nvalue: string")
    _without_registry(bare)

    frazil(bare, "doctor")

    assert "none is configured, and no table needs one" in capsys.readouterr().out
