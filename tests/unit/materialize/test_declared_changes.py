"""`cdc: debezium` with `value: json`: whole batches of change events without a schema, whose row the spec declares."""

from __future__ import annotations

import datetime as dt
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from change_streams import ChangeStream

from frazil.model.change_events import PLACEHOLDER, ChangeEvents
from frazil.model.dead_letter import Reason
from frazil.model.errors import IncompatibleSchemaError
from frazil.model.policed import policed
from frazil.model.policies import Policies, Policy
from frazil.model.progress import Counts
from tests.fakes.debezium_samples import AT_MS

FIELDS = {"id": "long", "email": "string", "since": "io.debezium.time.Date"}


class DeclaredChanges(ChangeStream):
    @classmethod
    def of(cls, folder: Path, events: ChangeEvents | None = None, **changes: Any) -> DeclaredChanges:
        made = cls.at(folder, events, key="json", value="json", **changes)
        assert isinstance(made, cls)
        made.declare(FIELDS)
        return made

    def declare(self, fields: dict[str, str]) -> None:
        settings = replace(self.spec.value_settings, fields=json.dumps(fields))
        self.spec = replace(self.spec, value_settings=settings)

    def put(self, key: int, op: str | None, *, lsn: int = 1, **images: Any) -> None:
        source = {"connector": "postgresql", "ts_ms": AT_MS, "lsn": lsn, "db": "shop"}
        event = {"before": None, "after": None, **images, "source": source, "op": op, "ts_ms": AT_MS}
        self.put_value(key, None if op is None else json.dumps(event).encode())

    def put_value(self, key: int, value: bytes | None) -> None:
        self.world.keys[len(self.world.values)] = json.dumps({"id": key}).encode()
        self.world.values.append(value)  # type: ignore[arg-type]


@pytest.fixture
def stream(tmp_path: Path) -> DeclaredChanges:
    return DeclaredChanges.of(tmp_path)


def test_a_snapshot_and_what_follows_it_are_the_present_state(stream: DeclaredChanges) -> None:
    for key in (1, 2, 3):
        stream.put(key, "r", after={"id": key, "email": "snapshot", "since": 19_675})
    stream.catch_up()
    stream.put(2, "u", after={"id": 2, "email": "changed", "since": None})
    stream.put(3, "d", before={"id": 3})
    stream.put(3, None)
    stream.put(1, "u", after={"id": 1, "email": PLACEHOLDER, "since": 19_676})
    stream.put(4, "c", after={"id": "4"})
    stream.put_value(5, b'{"id": 5, "email": "flattened"}')
    stream.catch_up()

    day = dt.date(2023, 11, 15)
    assert stream.rows("id", "email", "since", "__op") == [(1, "snapshot", day, "u"), (2, "changed", None, "u")]
    assert stream.letters() == [(7, Reason.WRONG_TYPE.value), (8, Reason.NOT_AN_ENVELOPE.value)]
    assert stream.verified().counts == Counts(read=9, rows=5, deletes=2, dead_letters=2)


def test_a_new_column_of_the_database_is_kept_until_it_is_declared(stream: DeclaredChanges) -> None:
    stream.put(1, "c", after={"id": 1, "phone": "1"})
    stream.catch_up()

    assert stream.rows("_extra") == [('{"phone":"1"}',)]
    stream.verified()
    stream.declare({**FIELDS, "phone": "string"})
    (refused,) = stream.world.check(stream.spec)
    assert "existing rows may have phone among their undeclared fields" in refused.what


def test_a_column_can_be_declared_before_the_database_has_it(stream: DeclaredChanges) -> None:
    stream.put(1, "c", after={"id": 1})
    stream.catch_up()
    stream.declare({**FIELDS, "phone": "string"})
    stream.put(1, "u", after={"id": 1, "phone": "1"})
    stream.catch_up()

    assert stream.rows("phone") == [("1",)]
    stream.verified()


def test_the_source_may_order_the_changes(tmp_path: Path) -> None:
    stream = DeclaredChanges.of(tmp_path, ChangeEvents(connector="postgresql"), on_tombstone="skip")
    stream.put(1, "u", after={"id": 1, "email": "newest"}, lsn=9)
    stream.put(2, "d", before={"id": 2}, lsn=9)
    stream.catch_up()
    stream.put(1, "u", after={"id": 1, "email": "late"}, lsn=8)
    stream.put(2, "u", after={"id": 2}, lsn=8)
    stream.catch_up()

    assert stream.rows("email", "__position_lsn") == [("newest", 9)]
    assert stream.verified().counts == Counts(read=4, rows=1, deletes=1, duplicates=2)


def test_soft_deletes_keep_the_row_and_mark_it(tmp_path: Path) -> None:
    stream = DeclaredChanges.of(tmp_path, ChangeEvents(soft_deletes=True), on_tombstone="skip")
    stream.put(1, "c", after={"id": 1, "email": "x"})
    stream.put(1, "d", before={"id": 1})
    stream.put(1, None)
    stream.catch_up()

    assert stream.rows("email", "__deleted") == [("x", True)]
    stream.verified()


def test_policies_name_the_columns_of_the_row(stream: DeclaredChanges) -> None:
    policies = Policies(columns=(("_extra", Policy("none")), ("email", Policy("redact"))))
    stream.spec = policed(stream.spec, policies, hash_key=None, dead_letter_key=None)
    stream.put(1, "c", after={"id": 1, "email": "x"})
    stream.catch_up()

    assert stream.rows("id", "email") == [(1, "[redacted]")]


def test_a_declared_column_cannot_have_the_name_of_one_about_the_change(stream: DeclaredChanges) -> None:
    stream.declare({"__OP": "string"})
    stream.put(1, "c", after={"__OP": "x"})

    with pytest.raises(IncompatibleSchemaError, match="columns with names of change events: __OP"):
        stream.catch_up()
