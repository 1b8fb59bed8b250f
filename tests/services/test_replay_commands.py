"""`frazil dead-letters replay` as it is typed: alone, and beside a driver."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from breadth import Place, encode, record_of
from walk_through import run_script

from frazil.cli.app import run
from frazil.cli.dead_letter_replay import LEAST_WAIT_SECONDS
from frazil.materialize.outcome import Published
from frazil.materialize.pause.pausing import excluded_schemas_property
from frazil.materialize.replay.request import REQUEST_PREFIX
from frazil.materialize.run import TableRun
from frazil.model.schemas import ExcludedSchemas

SCHEMA = record_of(
    ("n", "long"),
)
WITH_NOTE = record_of(
    ("n", "long"),
    ("note", "string"),
)
PAGE = (Path(__file__).parents[2] / "docs" / "dead-letters.md").read_text(encoding="utf-8")
Captured = pytest.CaptureFixture[str]


@pytest.fixture
def broken(place: Place) -> tuple[str, str]:
    """Two tombstones of a careless producer are dead letters; then the spec makes them rows. The spec and the table."""
    topic = place.topic()
    (value,) = encode(SCHEMA, place.register(f"{topic}-value", SCHEMA), {"n": 1})
    place.send(topic, value, None, None, b"x", key=b"k")
    table = place.materialize(f"topic: {topic}\non_tombstone: dead_letter\nbad_record_limit: off")
    assert table.state.total().dead_letters == 3
    spec = f"topic: {topic}\nbad_record_limit: off"
    place.settings(spec)
    return spec, topic


def test_a_replay_alone_is_shown_listed_and_verified(place: Place, broken: tuple[str, str], capsys: Captured) -> None:
    _, topic = broken
    config = ["--config", str(place.folder / "frazil.yaml")]

    assert run(["dead-letters", "replay", topic, "--wait", "0", *config]) == 0
    out = capsys.readouterr().out
    assert out.startswith(f"{place.name}.{topic}: 2 dead letters became rows\n  in snapshot ")
    assert "  1 stays a dead letter: not_framed 1\n" in out

    assert run(["dead-letters", "list", topic, "--json", *config]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert (listed["total"], listed["replayed"], listed["by_reason"]) == (1, 2, {"not_framed": 1})
    assert run(["dead-letters", "show", topic, f"{topic}-0@1", *config]) == 0
    assert ": it is a row since snapshot " in capsys.readouterr().out

    assert run(["dead-letters", "replay", topic, "--wait", "0", "--reason", "null_value", *config]) == 0
    assert "has no such dead letter: nothing was replayed" in capsys.readouterr().err
    assert run(["verify", topic, "--against-kafka", *config]) == 0
    assert "2 more were replayed and are rows" in capsys.readouterr().out


def test_the_walk_through_is_as_its_page_says(place: Place, capsys: Captured) -> None:
    topic = place.topic()
    (value,) = encode(SCHEMA, place.register(f"{topic}-value", SCHEMA), {"n": 1})
    place.send(topic, value, key=b"k")
    page = PAGE.replace("orders-0@1145", "orders-0@1").replace("orders", topic)
    first, careless, second = re.findall(r"```(?:python|yaml)\n(.*?)```", page, re.DOTALL)
    run_script(careless, place)
    assert place.materialize(first).state.total().dead_letters == 3
    place.settings(second)
    commands = re.findall(r"^frazil (.*)$", page, re.MULTILINE)
    assert commands.pop(0) == f"materialize {topic} --once", "that was done above"
    config = ["--config", str(place.folder / "frazil.yaml")]

    said = []
    for command in commands:
        assert run([*command.split(), *config]) == 0, command
        said.append("".join(capsys.readouterr()))

    before, _, replayed, again, proof, after, shown = said
    assert "null_value" in before
    assert "2 dead letters became rows" in replayed
    assert "nothing was replayed" in again
    assert "2 more were replayed and are rows" in proof
    assert "null_value" not in after
    assert "it is a row since snapshot" in shown


def requests(driver: TableRun) -> list[str]:
    view = driver.clients.lake.load(driver.spec.identifier)
    assert view is not None
    return [name for name in view.properties if name.startswith(REQUEST_PREFIX)]


def test_a_running_driver_answers_the_command(place: Place, broken: tuple[str, str], capsys: Captured) -> None:
    spec, topic = broken
    driver = place.run(spec)
    place.send(topic, *encode(SCHEMA, place.register(f"{topic}-value", SCHEMA), {"n": 2}))
    statuses: list[int] = []
    command = ["dead-letters", "replay", topic, "--config", str(place.folder / "frazil.yaml"), "--json"]
    asking = threading.Thread(target=lambda: statuses.append(run(command)))
    asking.start()
    while not requests(driver):
        assert asking.is_alive()

    assert isinstance(driver.batch(), Published)
    asking.join(10 * LEAST_WAIT_SECONDS)

    assert statuses == [0]
    said = json.loads(capsys.readouterr().out)
    assert (said["replayed"], said["stayed"], said["error"]) == (2, {"not_framed": 1}, None)
    assert requests(driver) == []


def test_dead_letters_of_a_table_that_follows_keys_win_or_lose(place: Place) -> None:
    topic = place.topic()
    spec = f"topic: {topic}\nwrite: upsert\nbad_record_limit: off"
    place.settings(spec)
    ours, theirs = (place.register(f"{topic}-value", schema) for schema in (SCHEMA, WITH_NOTE))
    (first,) = encode(SCHEMA, ours, {"n": 1})
    place.send(topic, first, key=b"a")
    lake = place.materialize(spec).of.clients.lake
    excluded = excluded_schemas_property(ExcludedSchemas(frozenset({theirs})))
    lake.set_properties(f"{place.name}.{topic}", put=excluded)
    later = encode(WITH_NOTE, theirs, {"n": 2, "note": "x"}, {"n": 3, "note": "x"})
    for key, value in zip((b"a", b"b", b"a"), (*later, *encode(SCHEMA, ours, {"n": 4})), strict=True):
        place.send(topic, value, key=key)
    assert place.materialize(spec).state.total().dead_letters == 2
    lake.set_properties(f"{place.name}.{topic}", put={}, remove=list(excluded))

    replayed = command(place, "dead-letters", "replay", topic, "--wait", "0")
    proof = command(place, "verify", topic, "--against-kafka")
    rows = command(
        place, "query", f"SELECT kafka_key, n FROM lake.{topic} ORDER BY kafka_key".replace("lake", place.name)
    )

    assert replayed.startswith(f"{place.name}.{topic}: 2 dead letters became 1 row and 1 duplicate\n  in snapshot ")
    assert (
        "0 dead letters: the counted number in each partition, each once, none also a row; 2 more were replayed"
        in proof
    )
    assert [line.split() for line in rows.splitlines()[2:]] == [["a", "4"], ["b", "3"]]


def command(place: Place, *words: str) -> str:
    """Run a command in a process of its own, in which Spark may start; return what it prints."""
    program = [sys.executable, "-c", "from frazil.cli.app import main; main()"]
    done = subprocess.run(
        [*program, *words, "--config", str(place.folder / "frazil.yaml")],
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
