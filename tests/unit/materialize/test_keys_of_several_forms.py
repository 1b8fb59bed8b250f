"""Keys of one identity that are written as several sequences of bytes: for Kafka's compaction, these are several."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from change_streams import ChangeStream
from changelogs import Changelog
from rebuilt_tables import rebuild

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


@pytest.mark.parametrize("changed", [False, True], ids=["the same spec", "another spec"])
def test_a_rebuild_does_not_undelete_a_key_whose_delete_had_other_bytes(stream: Any, *, changed: bool) -> None:
    assert (stream.rows("kafka_offset"), stream.letters()) == ([(4,)], [(5, "null_identity")])
    if changed:
        stream.spec = replace(stream.spec, metadata=replace(stream.spec.metadata, prefix="k_"))

    said = "equal keys may have other bytes" if changed else "1 key would have a row"
    with pytest.raises(RecordsLostError, match=said):
        rebuild(stream).perform()

    assert stream.rows("kafka_offset") == [(4,)]


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


@pytest.mark.parametrize(
    ("key", "schemas", "several"),
    [
        ("bytes", 0, False),
        ("string", 0, False),
        ("json", 0, False),
        ("avro", 1, False),
        ("avro", 2, True),
        ("protobuf", 1, True),
        ("json_schema", 1, True),
        ("connect_json", 1, True),
    ],
)
def test_which_keys_have_several_forms(key: KeyFormat, schemas: int, several: bool) -> None:
    assert has_several_forms(key, range(schemas)) == several
