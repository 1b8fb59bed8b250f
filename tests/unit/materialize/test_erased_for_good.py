"""What is erased stays so: dead letters, beside another erasure or a rebuild, and after a changed spec."""

from __future__ import annotations

import base64
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from change_streams import ChangeStream
from changelogs import Changelog
from deduplicated import Duplicates
from erased_tables import NUMBERS, erase, erasure, keys, numbers_of, skipped, with_key
from policed_tables import HASH_KEY
from rebuilt_tables import SPECS, letters, rebuild
from whole_batches import LONG, World, framed

from frazil.adapters.iceberg.lake import IcebergLake
from frazil.materialize.outcome import Published
from frazil.materialize.pause.history import operations
from frazil.materialize.replay.request import ReplayRequest
from frazil.model.change_events import ChangeEvents
from frazil.model.erasures import ERASED, ErasedHash, with_hash, with_letters
from frazil.model.errors import RebuildError, SettingError
from frazil.model.secret import NamedKey, Secret
from frazil.model.settings import CatalogSettings
from tests.fakes.clients_in_memory import a_field, record
from tests.fakes.debezium_samples import order, postgres
from tests.rebuilds import rebuild_of


def test_a_rebuild_does_not_bring_an_erased_dead_letter_back(tmp_path: Path) -> None:
    log = with_key(Changelog.at(tmp_path), "typed")
    log.send(("ann", 1), ("bob", 1), ("ann", 0), ("bob", 0), ("bob", 2))
    log.world.values[2:4] = [b'{"n": "of ann"}', b'{"n": "of bob"}']
    log.catch_up()
    done = erase(log, "ann")

    rebuild(log).perform()
    rebuild(log).perform()

    assert (done.rows, done.dead_letters) == (1, 1)
    assert (keys(log), letters(log), skipped(log)) == (["bob", "bob"], [3], {ERASED: 2})
    assert log.verify().findings == ()
    assert log.against_kafka().findings == ()


def test_an_erased_dead_letter_needs_no_key_to_stay_erased(tmp_path: Path) -> None:
    log = with_key(Changelog.at(tmp_path), "typed")
    log.spec = replace(log.spec, erasure_key=None)
    log.send(("bob", 1), ("ann", 0))
    log.world.values[1] = b'{"n": "of ann"}'
    log.catch_up()
    erase(log, "ann")

    rebuild(log).perform()

    assert (keys(log), letters(log), skipped(log)) == (["bob"], [], {ERASED: 1})


def test_two_erasures_at_once_keep_both_hashes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = with_key(Changelog.at(tmp_path), "append")
    log.send(("ann", 1), ("bob", 1), ("cid", 1))
    log.catch_up()
    others = iter(("bob",))

    def after_another(properties: dict[str, str], new: ErasedHash) -> dict[str, str]:
        for other in others:
            erase(log, other)
        return with_hash(properties, new)

    monkeypatch.setattr("frazil.forget.hashes.with_hash", after_another)
    erase(log, "ann")
    rebuild(log).perform()

    assert keys(log) == ["cid"]


def test_a_rebuild_beside_an_erasure_does_not_bring_the_value_back(tmp_path: Path) -> None:
    log = with_key(Changelog.at(tmp_path), "append")
    log.send(("ann", 1), ("bob", 1))
    log.catch_up()
    running, beside = erasure(log.world, log.spec, log.view, "ann", "kafka_key"), iter([rebuild(log)])

    def rebuild_beside(name: str) -> None:
        for each in beside if name == "rows" else ():
            each.perform()

    running.step = rebuild_beside

    assert running.perform().is_complete
    assert keys(log) == ["bob"]


def test_a_rebuild_that_has_read_what_is_erased_meanwhile_is_refused(tmp_path: Path) -> None:
    log = with_key(Changelog.at(tmp_path), "append")
    log.send(("ann", 1), ("bob", 1))
    log.catch_up()
    running = erasure(log.world, log.spec, log.view, "ann", "kafka_key")

    def die(progress: object) -> None:
        raise KeyboardInterrupt

    def begin_beside(name: str) -> None:
        if name == "rewrite":
            with pytest.raises(KeyboardInterrupt):
                rebuild(log, report=die).perform()

    running.step = begin_beside

    assert not running.perform().is_complete
    with pytest.raises(RebuildError, match="has erased from the table since this rebuild began"):
        rebuild(log).perform()
    assert keys(log) == ["bob"]


@pytest.mark.parametrize("mode", ["upsert", "history"])
def test_a_value_that_is_not_in_the_identity_of_a_changed_spec_shows_no_earlier_row(tmp_path: Path, mode: str) -> None:
    log = with_key(Changelog.at(tmp_path), "typed")
    log.send(("ann", 1), ("bob", 1), ("ann", 2))
    log.catch_up()
    erase(log, "2", "n")
    fields, table = log.spec.value_settings, log.spec.table
    log.spec = replace(SPECS[mode], table=table, erasure_key=HASH_KEY, value_settings=fields)

    with pytest.raises(SettingError, match="a value of n was erased, which is not in the identity, kafka_key"):
        rebuild(log).perform()

    assert keys(log) == ["ann", "bob"]


def test_a_replayed_letter_of_which_the_row_stays_is_a_row_after_a_rebuild(tmp_path: Path) -> None:
    """The text is in a column that was not asked for, so the letter goes and its row stays."""
    world = World(IcebergLake(CatalogSettings("jdbc", str(tmp_path / "warehouse"))))
    world.registry.register("orders-value", LONG)
    note = record(a_field("n"), a_field("channel", ["null", "string"]), a_field("note", ["null", "string"]))
    world.values += [framed(1, LONG, {"n": 0}), framed(1, LONG, {"n": 1})]
    world.values.append(framed(2, note, {"n": 2, "channel": "x", "note": "web"}))
    assert isinstance(world.table(NUMBERS).batch(), Published)
    world.registry.register("other-value", note)
    world.registry.missing.clear()
    assert world.table(NUMBERS).replay(ReplayRequest("r1", by="tester", at="2026-03-01T12:00:00Z")).replayed == 1

    done = erasure(world, NUMBERS, numbers_of(world), "web", "channel").perform()
    rebuild_of(world.table(NUMBERS)).perform()

    assert (done.rows, done.dead_letters) == (0, 1)
    assert sorted(numbers_of(world).current.scan().to_arrow()["n"].to_pylist()) == [0, 1, 2]


@pytest.mark.parametrize("op", ["m", "t"])
def test_an_erased_letter_that_is_an_event_without_a_row_now_counts_once(tmp_path: Path, op: str) -> None:
    stream = ChangeStream.at(tmp_path, ChangeEvents(), erasure_key=HASH_KEY)
    for key, event in ((1, postgres("c", after=order(1))), (None, postgres(op)), (2, postgres("c", after=order(2)))):
        stream.send(key, event)
    stream.catch_up()
    put = with_letters(stream.view.properties, "w", {("orders", 0, 0): [1]})
    stream.world.lake.set_properties(stream.spec.identifier, put=put)
    before = stream.rows("id")

    rebuild(cast(Any, stream)).perform()

    assert stream.rows("id") == before
    stream.verified()


def test_a_duplicate_does_not_take_the_place_of_an_erased_row(tmp_path: Path) -> None:
    log = Duplicates.at(tmp_path, erasure_key=HASH_KEY)
    log.send_events(("a", 1, 0), ("b", 2, 0), ("a", 3, 0))
    log.catch_up()

    done = erase(log, "1", "n")

    assert "n is no identity" in done.no_hash


def test_a_table_keeps_hashes_by_one_key_only(tmp_path: Path) -> None:
    """Otherwise no key would do for a rebuild."""
    log = with_key(Changelog.at(tmp_path), "append")
    log.send(("ann", 1), ("bob", 1), ("cid", 1))
    log.catch_up()
    erase(log, "ann")
    log.spec = replace(log.spec, erasure_key=NamedKey("h2", Secret(base64.b64encode(bytes(32)).decode())))
    done = erase(log, "bob")
    log.spec = replace(log.spec, erasure_key=HASH_KEY)

    rebuild(log).perform()

    assert "another hash_key, h1" in done.no_hash
    assert keys(log) == ["bob", "cid"]


def test_who_erased_what_is_noted_also_if_earlier_versions_cannot_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = with_key(Changelog.at(tmp_path), "append")
    log.send(("ann", 1), ("bob", 1))
    log.catch_up()
    running = erasure(log.world, log.spec, log.view, "ann", "kafka_key")

    def die(name: str) -> None:
        if name == "versions":
            raise KeyboardInterrupt

    running.step = die
    with pytest.raises(KeyboardInterrupt):
        running.perform()

    assert "1 row and 0 dead letters by a value of kafka_key" in [each.why for each in operations(log.view.properties)]
