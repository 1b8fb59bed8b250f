"""Keys of one identity that are written as several sequences of bytes: for Kafka's compaction, these are several."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from change_streams import ChangeStream
from changelogs import Changelog
from rebuilt_tables import rebuild
from values_of_tables import spec

from frazil.model.columns import Column, Decimal, Struct
from frazil.model.errors import RecordsLostError
from frazil.model.key_forms import has_several_forms
from frazil.model.spec import KeyFormat
from tests.fakes.debezium_samples import order, postgres


@pytest.fixture
def stream(tmp_path: Path) -> Any:
    """A key whose delete, which is gone, had other bytes than the first record of the key, which Kafka still has."""
    made: Any = ChangeStream.at(tmp_path, form="json")
    for key, event in (
        (1, postgres("c", after=order(1))),
        (1, postgres("u", after=order(1))),
        (1, postgres("d", before=order(1))),
        (1, None),
        (2, postgres("c", after=order(2))),
        (None, postgres("c", after=order(3))),
    ):
        made.send(key, event)
    keys = made.world.keys
    keys[0] = keys[0].replace(b'"payload":{', b'"payload":{ ')
    made.catch_up()
    made.world.gone |= {1, 2, 3}
    return made


@pytest.mark.parametrize("changed", [False, True], ids=["the same spec", "another prefix"])
def test_a_rebuild_does_not_undelete_a_key_whose_delete_had_other_bytes(stream: Any, *, changed: bool) -> None:
    assert (stream.rows("kafka_offset"), stream.letters()) == ([(4,)], [(5, "null_identity")])
    if changed:
        stream.spec = replace(stream.spec, metadata=replace(stream.spec.metadata, prefix="k_"))

    with pytest.raises(RecordsLostError, match="1 key would have a row"):
        rebuild(stream).perform()

    assert stream.rows("kafka_offset") == [(4,)]


def test_a_rebuild_by_other_rules_does_not_undelete_a_key_either(stream: Any) -> None:
    """The rows of both cannot be compared then."""
    stream.spec = replace(stream.spec, value_settings=replace(stream.spec.value_settings, string_formats="text"))

    with pytest.raises(RecordsLostError, match="equal keys may have other bytes"):
        rebuild(stream).perform()

    assert stream.rows("kafka_offset") == [(4,)]


@pytest.mark.parametrize("prefix", ["kafka_", "k_"])
def test_a_rebuild_does_not_undo_a_truncate_that_compaction_removed(tmp_path: Path, prefix: str) -> None:
    """A truncate has no key, as a message has none, which is skipped."""
    made: Any = ChangeStream.at(tmp_path)
    for key, event in (
        (1, postgres("r", after=order(1))),
        (2, postgres("r", after=order(2))),
        (None, postgres("m")),
        (None, postgres("t")),
        (1, postgres("c", after=order(1))),
    ):
        made.send(key, event)
    made.catch_up()
    made.world.gone |= {0, 2, 3}
    made.spec = replace(made.spec, metadata=replace(made.spec.metadata, prefix=prefix))

    with pytest.raises(RecordsLostError, match="1 key would have a row that the table does not have, of offset 1"):
        rebuild(made).perform()


def test_the_proof_does_not_call_such_a_key_lost(stream: Any) -> None:
    verification = stream.verified()

    assert any("deletes that Kafka does not have any more explain the number" in note for note in verification.notes)
    stream.world.gone -= {2, 3}
    assert [each.kind for each in stream.against_kafka().findings] == []


def test_a_json_text_is_its_own_identity(tmp_path: Path) -> None:
    log = Changelog.at(tmp_path, key="json")
    log.send(("x", 1), ("y", 2))
    log.world.keys |= {0: b'{"a":1,"b":2}', 1: b'{"b":2,"a":1}'}
    log.catch_up()

    assert log.rows() == {'{"a":1,"b":2}': 0, '{"b":2,"a":1}': 1}


def test_keys_in_json_schema_are_compared_by_their_values(tmp_path: Path) -> None:
    log = Changelog.at(tmp_path, key="json_schema")
    properties = {"a": {"type": "integer"}, "b": {"type": "integer"}}
    schema = log.world.registry.register("orders-key", json.dumps({"properties": properties}), schema_format="JSON")
    header = b"\0" + int(schema.id).to_bytes(4)  # type: ignore[arg-type]
    log.send(("v", 1), ("w", 2), ("x", 3), ("y", 4), ("z", None))
    written = (b'{"a":1,"b":2}', b'{"b":2, "a":1}', b'{"a":2,"b":2}', b'{"a":1,"b":2,"c":3}', b'{"a":2,"b":2}')
    log.world.keys = {offset: header + key for offset, key in enumerate(written)}
    log.catch_up()

    (batch,) = log.world.lake.read(log.view, columns=["kafka_key", "kafka_offset"], equal={})
    assert sorted((row["kafka_offset"], row["kafka_key"]["_extra"]) for row in batch.to_pylist()) == [
        (1, None),
        (3, '{"c":3}'),
    ]
    assert log.against_kafka().findings == ()


@pytest.mark.parametrize(
    ("key", "schemas", "more", "several"),
    [
        ("bytes", 0, {}, False),
        ("string", 0, {}, False),
        ("json", 0, {}, False),
        ("avro", 1, {}, False),
        ("avro", 2, {}, True),
        ("avro", 1, {"wire_format": "glue"}, True),
        ("protobuf", 1, {}, True),
        ("json_schema", 1, {}, True),
        ("connect_json", 1, {}, True),
    ],
)
def test_which_keys_have_several_forms(key: KeyFormat, schemas: int, more: dict[str, Any], several: bool) -> None:
    assert has_several_forms(spec(key=key, **more), range(schemas), ()) == several


def test_a_decimal_of_avro_has_several_forms() -> None:
    of_key, other = (Column(name, Struct((Column("id", Decimal(9, 2)),))) for name in ("kafka_key", "price"))

    assert not has_several_forms(spec(key="avro"), [1], [other])
    assert has_several_forms(spec(key="avro"), [1], [other, of_key])
