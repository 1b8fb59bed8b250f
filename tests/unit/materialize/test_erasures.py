"""Erasures beside running drivers, replays and a comparison with Kafka: each record is there once, or forgotten."""

from __future__ import annotations

import json
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from erased_tables import erasure
from values_of_tables import spec
from whole_batches import LONG, World, drained, framed, once

from frazil.adapters.iceberg.lake import IcebergLake
from frazil.dead_letters import list_dead_letters
from frazil.forget.perform import Erased, Erasure
from frazil.materialize.clients import Observer
from frazil.materialize.outcome import Again, Outcome, Published
from frazil.materialize.replay.request import ReplayRequest
from frazil.materialize.run import TableRun
from frazil.materialize.state import standing
from frazil.model.errors import PausedError
from frazil.model.settings import CatalogSettings
from frazil.model.snapshot import TableView
from frazil.model.spec import BadRecordLimit, TableSpec
from frazil.proof.verification import FindingKind, Verification
from frazil.verify.against_kafka import KafkaSide
from frazil.verify.table import verify_table
from tests.fakes.clients_in_memory import a_field, record

SPEC = spec(bad_record_limit=BadRecordLimit.off())
WIDER = record(a_field("n"), a_field("channel", ["null", "string"]))
REPLAY = ReplayRequest("r1", by="tester", at="2026-03-01T12:00:00Z")
BEFORE_THE_ROWS = ("ingest", "prepare", "stage", "publish")


@pytest.fixture
def world(tmp_path: Path) -> World:
    """A table with the rows 0 and 1, and a dead letter at offset 2 that a replay can decode."""
    made = World(IcebergLake(CatalogSettings("jdbc", str(tmp_path / "warehouse"))))
    made.registry.register("orders-value", LONG)
    made.values += [long(0), long(1), framed(2, WIDER, {"n": 2, "channel": "web"})]
    assert isinstance(made.table(SPEC).batch(), Published)
    return made


def long(n: int) -> bytes:
    return framed(1, LONG, {"n": n})


def driver(world: World, observe: Observer) -> TableRun:
    run = world.table(SPEC)
    run.clients = replace(run.clients, observe=observe)
    return run


def view_of(world: World) -> TableView:
    view = world.lake.load(SPEC.identifier)
    assert view is not None
    return view


def erasure_of(world: World, n: int) -> Erasure:
    return erasure(world, SPEC, view_of(world), str(n), "n")


def erase(world: World, n: int) -> Erased:
    return erasure_of(world, n).perform()


def rows(world: World) -> list[int]:
    return sorted(view_of(world).current.scan().to_arrow()["n"].to_pylist())


def verified(world: World) -> Verification:
    kafka = KafkaSide(world.topics, cast(Any, world), world.registry)
    return verify_table(world.lake, SPEC, kafka=kafka)


def test_what_kafka_still_has_of_erased_rows_is_explained(world: World) -> None:
    erase(world, 1)

    verification = verified(world)

    assert verification.findings == ()
    assert any("the 1 row that `frazil forget` or `retain_rows` took out" in note for note in verification.notes)


def test_more_than_the_erased_rows_are_still_missing(world: World) -> None:
    erase(world, 1)
    world.lake.catalog.load_table(SPEC.identifier).delete("n = 0")

    found = {each.kind for each in verified(world).findings}

    assert FindingKind.MISSING_RECORD not in found  # another writer says that it removed a row
    world.values.append(long(3))
    assert drained(world, SPEC) == []
    state = standing(view_of(world), pipeline=SPEC.pipeline).state
    assert (state.sources[0].partitions[0].forgotten, state.foreign.rows_removed) == (1, 1)


@pytest.mark.parametrize("step", BEFORE_THE_ROWS)
def test_a_batch_under_way_is_planned_again_and_reads_each_record_once(world: World, step: str) -> None:
    world.values += [long(3), b"bad", long(1)]

    outcome: list[Outcome] = [driver(world, once(("before", step), lambda: erase(world, 1))).batch()]

    assert isinstance(outcome[0], Again)
    assert drained(world, SPEC) == []
    assert rows(world) == [0, 1, 3]  # the record at offset 5 came after the erasure
    assert verified(world).findings == ()


def test_a_driver_waits_while_rows_are_erased(world: World) -> None:
    world.values.append(long(3))
    paused: list[type[Exception]] = []

    def try_a_batch(name: str) -> None:
        if name == "rows":
            with pytest.raises(PausedError) as refused:
                world.table(SPEC).batch()
            paused.append(refused.type)

    erasure = erasure_of(world, 1)
    erasure.step = try_a_batch
    erasure.perform()

    assert paused == [PausedError]
    assert drained(world, SPEC) == []
    assert (rows(world), verified(world).findings) == ([0, 3], ())


def test_a_batch_that_is_published_meanwhile_stays(world: World) -> None:
    world.values.append(long(3))
    go, at_publish = threading.Event(), threading.Event()

    def wait() -> None:
        at_publish.set()
        assert go.wait(10)

    under_way = threading.Thread(target=driver(world, once(("before", "publish"), wait)).batch)
    under_way.start()
    assert at_publish.wait(10)
    erasure = erasure_of(world, 1)

    def let_it_publish(name: str) -> None:
        if name == "rows":
            go.set()
            under_way.join(10)

    erasure.step = let_it_publish
    done = erasure.perform()

    assert (done.rows, done.is_complete) == (1, True)
    assert (rows(world), verified(world).findings) == ([0, 3], ())
    assert drained(world, SPEC) == []


def test_a_driver_that_died_with_its_batch_staged_leaves_nothing_of_it(world: World) -> None:
    world.values += [long(3), b"bad"]

    def die() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        driver(world, once(("before", "publish"), die)).batch()

    erase(world, 1)

    assert drained(world, SPEC) == []
    assert (rows(world), verified(world).findings) == ([0, 3], ())
    assert [letter.offset for letter in list_dead_letters(world.lake, SPEC, limit=9).newest] == [4, 2]


def test_no_state_from_before_an_erased_dead_letter_is_left_to_roll_back_to(world: World) -> None:
    """The records would be read again, and the letter counted as one that is there and as one that is not."""
    world.values += [b"x 7 bad", long(4)]
    assert drained(world, SPEC) == []

    done = erase(world, 7)

    assert (done.rows, done.dead_letters) == (0, 1)
    assert [each.summary["frazil.epoch"] for each in view_of(world).snapshots.values()] == ["2"]
    world.values.append(long(5))
    assert drained(world, SPEC) == []
    assert (rows(world), verified(world).findings) == ([0, 1, 4, 5], ())


def replay(world: World, observe: Observer = lambda when, step: None) -> int:
    world.registry.register("other-value", WIDER)
    world.registry.missing.clear()
    return driver(world, observe).replay(REPLAY).replayed


def test_a_row_that_was_a_dead_letter_is_erased_with_the_letter_and_its_mark(world: World) -> None:
    assert replay(world) == 1

    done = erase(world, 2)

    assert (done.rows, done.dead_letters) == (1, 1)
    letters = world.lake.load(SPEC.dead_letters_identifier)
    assert letters is not None
    assert (len(letters.snapshots), letters.current.scan().to_arrow().num_rows) == (1, 0)
    assert (rows(world), verified(world).findings) == ([0, 1], ())


def test_a_replay_under_way_chooses_its_letters_again(world: World) -> None:
    begun = once(("before", "replay_stage"), lambda: erase(world, 1))

    assert replay(world, begun) == 1

    assert (rows(world), verified(world).findings) == ([0, 2], ())


@pytest.mark.parametrize("channel", ["the.channel.of.24.letters", "web"])
def test_a_dead_letter_whose_length_looks_like_a_letter_is_erased(tmp_path: Path, channel: str) -> None:
    """The text has 24 bytes, which Avro writes as the byte of 0; the byte of the next value is a letter as well."""
    text = channel[:24]
    named = record(a_field("channel", "string"), a_field("n"))
    made = World(IcebergLake(CatalogSettings("jdbc", str(tmp_path / "warehouse"))))
    made.registry.register("orders-value", named)
    good, bad = (framed(1, named, {"channel": each, "n": -33}) for each in (text, text))
    longer = framed(1, named, {"channel": f"x{text}", "n": 1})
    made.values += [good, bad + b"!", longer + b"!"]
    assert isinstance(made.table(SPEC).batch(), Published)

    done = erasure(made, SPEC, view_of(made), text, "channel").perform()

    assert (done.rows, done.dead_letters) == (1, 1)
    assert [letter.offset for letter in list_dead_letters(made.lake, SPEC, limit=9).newest] == [2]
    assert verified(made).findings == ()


def erased_by_id(made: World, wanted: TableSpec, text: str) -> tuple[Erased, list[int]]:
    """Return what is erased by a value of the column `id`, and the offsets of the dead letters that are left."""
    view = made.lake.load(wanted.identifier)
    assert view is not None
    done = erasure(made, wanted, view, text, "id").perform()
    return done, [letter.offset for letter in list_dead_letters(made.lake, wanted, limit=9).newest]


def with_json_values(**changes: Any) -> TableSpec:
    settings = replace(SPEC.value_settings, fields=json.dumps({"id": "string", "n": "int"}))
    return replace(SPEC, value="json", value_settings=settings, **changes)


def test_lengths_of_keys_in_avro_are_not_looked_for_in_values_of_json(tmp_path: Path) -> None:
    """A text of 17 bytes has the length `"` in Avro, which is in front of each string in JSON."""
    made, wanted = (
        World(IcebergLake(CatalogSettings("jdbc", str(tmp_path / "warehouse")))),
        with_json_values(key="avro"),
    )
    text, key = "customer-00000017", json.dumps("string")
    made.registry.register("orders-key", key)
    made.values += [json.dumps({"id": each, "n": n}).encode() for each, n in ((text, 1), (f"{text}1", "x"), ("a", "x"))]
    made.keys = {n: framed(1, key, cast(Any, each)) for n, each in enumerate(("k", "k", text))}
    drained(made, wanted)

    done, left = erased_by_id(made, wanted, text)

    assert (done.rows, done.dead_letters, left) == (1, 1, [1])
    assert not done.is_complete


def test_a_dead_letter_with_json_in_a_string_of_json_is_erased(tmp_path: Path) -> None:
    made, wanted = World(IcebergLake(CatalogSettings("jdbc", str(tmp_path / "warehouse")))), with_json_values()
    name = "J\u00fcrgen"
    values = ({"id": name, "n": 1}, {"id": "a", "n": json.dumps({"by": name})}, {"id": f"{name}s", "n": "x"})
    made.values += [json.dumps(each).encode() for each in values]
    drained(made, wanted)

    done, left = erased_by_id(made, wanted, name)

    assert (done.rows, done.dead_letters, left) == (1, 1, [2])
