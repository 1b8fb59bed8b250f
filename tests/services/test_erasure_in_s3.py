"""`frazil forget` decodes earlier versions of objects in a bucket that keeps them, and deletes those with the value."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from breadth import Place, bucket_of, catch_up, glue_catalog

from frazil.cli.app import run

Captured = pytest.CaptureFixture[str]


@pytest.fixture
def place(place: Place) -> Place:
    return replace(place, catalog=glue_catalog(place.services))


@pytest.fixture
def bucket(place: Place) -> Any:
    bucket = bucket_of(place)
    bucket.Versioning().enable()
    return bucket


def test_earlier_versions_are_searched_and_those_with_the_value_deleted(
    place: Place, bucket: Any, capsys: Captured
) -> None:
    topic = place.topic()
    spec = f"topic: {topic}\ntable: orders\nvalue: json\nfields: {{name: string}}\n"
    place.send(topic, *(json.dumps({"name": name}).encode() for name in ("ann", "bob", "cid")))
    catch_up(place.run(spec))
    forget = ["forget", "orders", "--where", "name=bob", "--config", str(place.folder / "frazil.yaml")]

    assert run([*forget, "--confirm"]) == 0

    said = capsys.readouterr().out
    assert "1 row and 0 dead letters erased" in said
    assert "deleted with 1 earlier version of files" in said
    left = [each for each in bucket.object_versions.all() if each.size and b"bob" in each.get()["Body"].read()]
    assert left == []
    assert run(forget) == 0
    said = capsys.readouterr().out
    assert "no trace of name = bob" in said
    assert "earlier versions of manifests and manifest lists: 2" in said, "versions without a trace stay"
