"""What is erased stays so: dead letters, beside another erasure or a rebuild, and after a changed spec."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from changelogs import Changelog
from policed_tables import HASH_KEY
from rebuilt_tables import SPECS, letters, rebuild
from test_kept_hashes import erase, erasure, keys, skipped, with_key

from frazil.model.erasures import ERASED, ErasedHash, with_hash
from frazil.model.errors import RebuildError, SettingError


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
