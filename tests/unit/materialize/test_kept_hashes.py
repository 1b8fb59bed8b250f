"""A rebuild does not bring an erased value back: the table keeps its keyed hash (docs/decisions/0070)."""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from changelogs import SENT, Changelog, Sent
from deduplicated import Duplicates
from erased_tables import NUMBERS, erase, erasure, keys, numbers_of, skipped, with_key
from hypothesis import given, settings
from hypothesis import strategies as st
from policed_tables import HASH_KEY
from rebuilt_tables import rebuild, rewind
from whole_batches import LONG, World, drained, framed

from frazil.adapters.iceberg.lake import IcebergLake
from frazil.formats.masks.hashes import hashed_in_python, key_bytes
from frazil.materialize.outcome import Published
from frazil.materialize.rebuild.rewind import ToOffsets
from frazil.materialize.replay.request import ReplayRequest
from frazil.model.erasures import AFTER_ALL, ERASED, HASH_PREFIX, ErasedHash, ReadBefore, erased_hashes, with_hash
from frazil.model.errors import SettingError
from frazil.model.secret import NamedKey, Secret
from frazil.model.settings import CatalogSettings
from tests.fakes.clients_in_memory import a_field, record
from tests.rebuilds import rebuild_of
from tests.sampling import examples

OTHER_KEY = NamedKey("h1", Secret(base64.b64encode(bytes(32)).decode()))
WIDER = record(a_field("n"), a_field("channel", ["null", "string"]))
MODES = ("append", "typed", "upsert", "deduplicate")


@pytest.mark.parametrize("mode", MODES)
def test_a_rebuild_does_not_bring_an_erased_value_back(tmp_path: Path, mode: str) -> None:
    log = with_key(Changelog.at(tmp_path), mode)
    log.send(("ann", 1), ("bob", 1), ("ann", 2))
    log.catch_up()
    before = erase(log, "ann")

    rebuild(log).perform()

    assert before.no_hash == ""
    assert keys(log) == ["bob"]
    assert skipped(log) == {ERASED: 2}
    assert log.verify().findings == ()
    assert log.against_kafka().findings == ()


@pytest.mark.parametrize("mode", MODES)
def test_a_record_after_the_erasure_has_its_row_before_and_after_a_rebuild(tmp_path: Path, mode: str) -> None:
    log = with_key(Changelog.at(tmp_path), mode)
    log.send(("ann", 1), ("bob", 1))
    log.catch_up()
    erase(log, "ann")
    log.send(("ann", 5), ("cid", 1))
    log.catch_up()
    assert keys(log) == ["ann", "bob", "cid"]

    rebuild(log).perform()

    assert (keys(log), skipped(log)) == (["ann", "bob", "cid"], {ERASED: 1})
    assert log.against_kafka().findings == ()


def test_a_second_rebuild_and_a_rewind_do_not_bring_it_back_either(tmp_path: Path) -> None:
    log = with_key(Changelog.at(tmp_path), "append")
    log.send(("ann", 1), ("bob", 1))
    log.catch_up()
    erase(log, "ann")
    log.send(("cid", 1))
    log.catch_up()

    rewind(log, ToOffsets({"orders": {0: 2}})).perform()
    first = keys(log)
    rebuild(log).perform()
    rebuild(log).perform()

    assert (first, keys(log)) == (["bob", "cid"], ["bob", "cid"])
    assert log.against_kafka().findings == ()


def test_two_erasures_of_a_value_keep_the_later_one(tmp_path: Path) -> None:
    log = with_key(Changelog.at(tmp_path), "append")
    log.send(("ann", 1), ("bob", 1))
    log.catch_up()
    erase(log, "ann")
    log.send(("ann", 5))
    log.catch_up()
    erase(log, "ann")

    (kept,) = erased_hashes(log.view.properties)
    rebuild(log).perform()

    assert kept.read == {"orders": ReadBefore(0, {0: 3})}
    assert (keys(log), skipped(log)) == (["bob"], {ERASED: 2})


def test_the_property_does_not_have_the_value_nor_the_hash_of_a_masked_column(tmp_path: Path) -> None:
    log = with_key(Changelog.at(tmp_path), "append")
    log.send(("ann", 1), ("bob", 1))
    log.catch_up()
    erase(log, "ann")

    (masked,) = hashed_in_python(pa.array([b"ann"], pa.large_binary()), key_bytes(HASH_KEY)).to_pylist()
    (said,) = (text for name, text in log.view.properties.items() if name.startswith(HASH_PREFIX))
    assert "ann" not in json.loads(said).values() and masked not in said


def test_without_a_key_a_rebuild_brings_it_back_and_the_command_says_so(tmp_path: Path) -> None:
    log = with_key(Changelog.at(tmp_path), "append")
    log.spec = replace(log.spec, erasure_key=None)
    log.send(("ann", 1), ("bob", 1))
    log.catch_up()

    done = erase(log, "ann")
    rebuild(log).perform()

    assert done.no_hash == "no hash_key is configured below `policies` in frazil.yaml"
    assert keys(log) == ["ann", "bob"]


def test_of_a_current_state_no_hash_is_kept_of_what_is_no_identity(tmp_path: Path) -> None:
    """Without the record of its newest row, a rebuild would have an earlier row of the key."""
    log = Changelog.at(tmp_path)
    with_key(log, "upsert")
    log.spec = replace(log.spec, value_settings=replace(log.spec.value_settings, fields=json.dumps({"n": "long"})))
    log.send(("ann", 1), ("ann", 2))
    log.catch_up()

    done = erase(log, "2", "n")

    assert "n is no identity" in done.no_hash
    assert erased_hashes(log.view.properties) == ()


@pytest.mark.parametrize("key", [None, OTHER_KEY])
def test_reading_again_needs_the_key_and_later_batches_do_not(tmp_path: Path, key: NamedKey | None) -> None:
    log = with_key(Changelog.at(tmp_path), "append")
    log.send(("ann", 1), ("bob", 1))
    log.catch_up()
    erase(log, "ann")
    log.spec = replace(log.spec, erasure_key=key)
    log.send(("cid", 1))
    log.catch_up()

    with pytest.raises(SettingError, match="hash_key h1"):
        rebuild(log).perform()

    assert keys(log) == ["bob", "cid"]
    log.spec = replace(log.spec, erasure_key=HASH_KEY)
    rebuild(log).perform()
    assert keys(log) == ["bob", "cid"]


def test_a_run_that_died_before_the_hash_is_kept_is_finished_by_the_next(tmp_path: Path) -> None:
    log = with_key(Changelog.at(tmp_path), "append")
    log.send(("ann", 1), ("bob", 1))
    log.catch_up()

    def die(name: str) -> None:
        if name == "hash":
            raise KeyboardInterrupt

    dying = erasure(log.world, log.spec, log.view, "ann", "kafka_key")
    dying.step = die
    with pytest.raises(KeyboardInterrupt):
        dying.perform()
    erase(log, "ann")

    rebuild(log).perform()

    assert keys(log) == ["bob"]


@given(steps=st.lists(st.lists(SENT, min_size=1, max_size=5) | st.sampled_from("abcd"), min_size=2, max_size=6))
@settings(max_examples=examples(3, 60), deadline=None)
def test_any_records_and_erasures_are_the_same_after_a_rebuild(
    tmp_path_factory: pytest.TempPathFactory, steps: list[list[Sent] | str]
) -> None:
    log = with_key(Changelog.at(tmp_path_factory.mktemp("log")), "upsert")
    log.send(("a", 0), ("b", 0))
    log.catch_up()
    for step in steps:
        if isinstance(step, str):
            erase(log, step)
        else:
            log.send(*((key or "e", value) for key, value in step))
            log.catch_up()
    before = log.rows()

    rebuild(log).perform()

    assert log.rows() == before
    assert log.verify().findings == ()
    assert log.against_kafka().findings == ()


def test_an_erased_event_stays_erased_with_its_duplicates(tmp_path: Path) -> None:
    log = Duplicates.at(tmp_path, erasure_key=HASH_KEY)
    log.send_events(("a", 1, 0), ("b", 2, 0), ("a", 3, 1))
    log.catch_up()
    column = log.spec.identity[0]
    erase(log, "a", column)
    rebuild(log).perform()

    assert list(log.rows()) == ["b"]
    assert log.against_kafka().findings == ()


@pytest.fixture
def world(tmp_path: Path) -> World:
    """A table with the rows 0 and 1, and a dead letter at offset 2 that a replay can decode."""
    made = World(IcebergLake(CatalogSettings("jdbc", str(tmp_path / "warehouse"))))
    made.registry.register("orders-value", LONG)
    made.values += [framed(1, LONG, {"n": 0}), framed(1, LONG, {"n": 1}), framed(2, WIDER, {"n": 2, "channel": "web"})]
    assert isinstance(made.table(NUMBERS).batch(), Published)
    return made


def test_a_dead_letter_in_which_the_value_was_not_found_is_not_replayed(world: World) -> None:
    """A number in a binary payload has no text: the letter stays when rows with the number are erased."""
    done = erasure(world, NUMBERS, numbers_of(world), "2", "n").perform()
    world.registry.register("other-value", WIDER)
    world.registry.missing.clear()

    result = world.table(NUMBERS).replay(ReplayRequest("r1", by="tester", at="2026-03-01T12:00:00Z"))

    assert (done.rows, done.dead_letters) == (0, 0)
    assert (result.replayed, dict(result.stayed)) == (0, {ERASED: 1})


def test_a_column_that_was_renamed_since_is_still_the_one(world: World) -> None:
    erasure(world, NUMBERS, numbers_of(world), "1", "n").perform()
    renamed = record({"name": "number", "type": "long", "aliases": ["n"]})
    world.registry.register("orders-value", renamed)
    world.values.append(framed(2, renamed, {"number": 1}))
    world.values[2] = framed(1, LONG, {"n": 7})
    assert drained(world, NUMBERS) == ["rename n to number"]
    before = numbers(world)

    rebuild_of(world.table(NUMBERS)).perform()

    assert (before, numbers(world)) == ([0, 1], [0, 1, 7])


def test_a_rebuild_that_parts_a_renamed_column_does_not_bring_the_value_back(world: World) -> None:
    """A later schema has both names without the alias: records with the former one are rows of their own column."""
    renamed = record({"name": "number", "type": "long", "aliases": ["n"]})
    world.registry.register("orders-value", renamed)
    world.values.append(framed(2, renamed, {"number": 2}))
    assert drained(world, NUMBERS) == ["rename n to number"]
    assert erasure(world, NUMBERS, numbers_of(world), "1", "number").perform().rows == 1
    both = record(a_field("n", ["null", "long"]), a_field("number", ["null", "long"]))
    world.registry.register("orders-value", both)

    rebuild_of(world.table(NUMBERS)).perform()

    rows = numbers_of(world).current.scan().to_arrow().to_pylist()
    assert 1 not in [row[name] for row in rows for name in ("n", "number") if name in row]


def numbers(world: World) -> list[int]:
    rows = numbers_of(world).current.scan().to_arrow()
    return sorted(rows["number"].to_pylist())


@pytest.mark.parametrize(("generation", "partition", "end"), [(0, 0, AFTER_ALL), (1, 0, 7), (1, 1, 0), (2, 0, 0)])
def test_records_of_a_topic_from_before_it_was_made_again_are_from_before_the_erasure(
    generation: int, partition: int, end: int
) -> None:
    kept = ErasedHash("c", "k", "f", "h", {"orders": ReadBefore(1, {0: 7})})

    assert erased_hashes(with_hash({}, kept)) == (kept,)
    assert (kept.end("orders", generation, partition), kept.end("other", generation, partition)) == (end, 0)
