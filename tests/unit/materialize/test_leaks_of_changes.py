"""No masked value of change events is in any file, nor in any log line (test_leaks.py)."""

from __future__ import annotations

import json
import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from change_streams import ChangeStream
from policed_tables import DROP, HASH, HASH_KEY, LETTER_KEY, REDACT, truncate
from test_leaks import MARK, Run

from frazil.cli.logs import EventFormatter
from frazil.model.change_events import ChangeEvents
from frazil.model.policed import policed
from frazil.model.policies import Policies, Policy
from frazil.model.spec import FormatSettings
from tests.fakes.debezium_samples import order, postgres

COLUMNS = {
    "notes": REDACT,
    "ref": HASH,
    "photo": truncate(2),
    "tags[]": HASH,
    "counts": DROP,
    "total": HASH,
    "kafka_key": HASH,
}
WHOLE: dict[str, Any] = {
    "notes": MARK,
    "ref": "5b2c5a7e-3f6d-4b52-9b1e-0d6f1f0a9c11",
    "photo": f"1 {MARK}".encode(),
    "tags": [MARK, None],
    "counts": [1],
}


def stream(folder: Path, form: str, columns: dict[str, Policy]) -> ChangeStream:
    made = ChangeStream.at(folder, ChangeEvents(soft_deletes=True), form)
    policies = Policies(tuple(sorted(columns.items())), hash_key=HASH_KEY.id if columns else None)
    made.spec = policed(made.spec, policies, hash_key=HASH_KEY, dead_letter_key=LETTER_KEY)
    return made


def send_all(given: ChangeStream) -> None:
    """Send changes of rows with marked values, events that are none, and values and keys that cannot be read."""
    given.send(1, postgres("c", after=order(1, **WHOLE)))
    given.send(2, postgres("c", after=order(2, **WHOLE)))
    given.send(2, postgres("d", before=order(2, **WHOLE)))
    given.send(1, postgres("u", before=order(1, **WHOLE), after=order(1, **{**WHOLE, "notes": f"{MARK}-2"})))
    for event in (
        postgres("x", after=order(3, **WHOLE)),
        postgres("c", after=order(3, **{**WHOLE, "ref": f"{MARK} is no UUID"})),
        postgres("c", before=order(3, **WHOLE)),
    ):
        given.send(3, event)
    values, keys = given.world.values, given.world.keys
    keys[len(values)] = keys[0]
    values.append(values[0][:-3])
    keys[len(values)] = MARK.encode()
    values.append(values[0])


@pytest.mark.parametrize("form", ["avro", "json"])
@pytest.mark.parametrize("columns", [COLUMNS, {}], ids=["masked", "plain"])
def test_rows_deletes_and_dead_letters_of_change_events(
    form: str, columns: dict[str, Policy], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    given = stream(tmp_path, form, columns)
    send_all(given)

    given.catch_up()

    said = [str(given.verified()), *map(EventFormatter().format, caplog.records)]
    assert len(given.letters()) > 4
    assert [row[0] for row in given.rows("id")] == [1, 2]
    found = Run(given.world, tmp_path, said).leaks()  # type: ignore[arg-type]
    expected = set() if columns else {".parquet of rows", ".parquet of dead letters", ".avro"}
    assert found >= expected
    assert not columns or found == expected


@pytest.mark.parametrize("has_policies", [True, False])
def test_changes_whose_row_the_spec_declares(
    has_policies: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    given = stream(tmp_path, "avro", {})
    fields = FormatSettings(fields=json.dumps({"id": "long", "notes": "string"}), change_events=ChangeEvents())
    spec = replace(given.spec, value="json", key="string", value_settings=fields)
    policies = Policies((("_extra", DROP), ("kafka_key", HASH), ("notes", HASH)), hash_key=HASH_KEY.id)
    given.spec = policed(spec, policies, hash_key=HASH_KEY, dead_letter_key=LETTER_KEY) if has_policies else spec
    about = {"source": {"connector": "postgresql", "ts_ms": 1}, "op": "c"}
    rows: list[Any] = [{"id": 1, "notes": MARK, "phone": MARK}, {"id": MARK}, MARK, {"id": 1, MARK: MARK}]
    for row in rows:
        given.world.keys[len(given.world.values)] = b"k"
        given.world.values.append(json.dumps({"after": row, **about}).encode())

    given.catch_up()

    said = [str(given.verified()), *map(EventFormatter().format, caplog.records)]
    assert len(given.letters()) == 2
    found = Run(given.world, tmp_path, said).leaks()  # type: ignore[arg-type]
    assert found == set() if has_policies else found >= {".parquet of rows", ".parquet of dead letters", ".avro"}
