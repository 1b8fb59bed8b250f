"""The driver, alone or with its workers, is killed before and after every step and inside every commit.

Inside a commit means: when its metadata file is written and the catalog does not point to it yet (it did not land), and
when the catalog does and the driver has not heard (it landed). Each run is killed at the next moment, over and over on
one table, so that every start also finds what the runs before left behind.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import cycle
from pathlib import Path

from frazil.local.supervisor import LocalServices
from frazil.materialize.pause.by_operator import resume
from frazil.materialize.pause.pausing import PAUSED_PROPERTY
from frazil.model.spec import BadRecordLimit, KeepSnapshots, WriteMode
from frazil.model.summary import REWRITTEN_BY
from frazil.verify.table import verify_table
from tests.faults.delta_side import assert_delta_is_current, with_delta
from tests.faults.moments import BOUNDARIES, MOMENTS, Moment
from tests.faults.rest import rest_catalog
from tests.faults.world import (
    SCHEMA,
    World,
    assert_exactly_once,
    glue_catalog,
    jdbc_catalog,
    kafka_side,
    new_world,
    register,
    with_mode,
    with_trigger,
)
from tests.faults.write_modes import in_every_mode
from tests.reader_paths import on_both_readers
from tests.sampling import in_long_runs, sampled

CREATING = ["rows create", "dead letters create"]
TAG = ["rows move_tags"]
HERE = sampled(MOMENTS, keep=BOUNDARIES.__contains__)
"""Before every step, which is after the one before it."""

ELSEWHERE = sampled(MOMENTS, keep=[("before", "ingest"), ("before", "publish"), ("after", "announce")].__contains__)
"""On other catalogs and with a Delta log, where the driver is killed inside all commits as well."""

BATCH = ["dead letters stage", "rows stage", "rows publish", "dead letters publish"]


def inside(commits: list[str]) -> list[str]:
    return [f"{moment} {commit}" for commit in commits for moment in ("written", "committed")]


OF_MODES: dict[WriteMode, list[str]] = {
    "append": [],
    "upsert": ["during search"],
    "deduplicate": ["during search"],
    "history": ["during search", "during update"],
}
"""Where the driver of a table of each mode can be killed beside the moments of all modes."""


class Drivers:
    """Starts drivers of one world, one after the other."""

    def __init__(self, host: subprocess.Popen[str]) -> None:
        self._host = host

    def run(self, who: str, moment: str = "") -> str:
        assert self._host.stdin and self._host.stdout
        self._host.stdin.write(f"{who} {moment}\n")
        self._host.stdin.flush()
        return str(ast.literal_eval(self._host.stdout.readline() or "'the host of the drivers died'"))


@contextmanager
def drivers(world: World, folder: Path) -> Iterator[Drivers]:
    setting = world.setting.save(folder / "setting")
    command = [sys.executable, "-m", "tests.faults.driver", str(setting)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as host:
        try:
            yield Drivers(host)
        finally:
            host.kill()


def test_killed_at_every_moment_each_record_is_there_once(local_world: World, tmp_path: Path) -> None:
    kill_at_every_moment(local_world, tmp_path, cycle(["group"]))


def test_killed_at_every_moment_readers_of_delta_see_each_record_once_as_well(
    services: LocalServices, tmp_path: Path
) -> None:
    world = with_delta(with_trigger(new_world(services, jdbc_catalog(tmp_path / "warehouse")), rows=6))

    kill_at_every_moment(
        world, tmp_path, cycle(["driver"]), moments=ELSEWHERE, more=("before log", "after log", *inside(TAG))
    )

    assert_delta_is_current(world)


def test_killed_at_every_moment_on_glue_each_record_is_there_once(
    services: LocalServices, tmp_path: Path, write: WriteMode
) -> None:
    world = with_mode(with_trigger(new_world(services, glue_catalog(services)), rows=6), write)

    kill_at_every_moment(world, tmp_path, cycle(["driver", "group"]), moments=ELSEWHERE)


@in_long_runs
def test_killed_at_every_moment_on_rest_each_record_is_there_once(
    services: LocalServices, rest_catalog_url: str, tmp_path: Path, write: WriteMode
) -> None:
    world = with_mode(with_trigger(new_world(services, rest_catalog(rest_catalog_url)), rows=6), write)

    kill_at_every_moment(world, tmp_path, cycle(["driver", "group"]), moments=ELSEWHERE)


def kill_at_every_moment(
    world: World,
    folder: Path,
    who: Iterator[str],
    *,
    moments: Sequence[Moment] = HERE,
    more: tuple[str, ...] = (),
) -> None:
    with drivers(world, folder) as start:

        def killed_at(*moments: str) -> None:
            for moment in moments:
                world.produce(4)
                assert start.run(next(who), moment) == "killed", moment

        killed_at(*inside(CREATING))
        killed_at(*(f"{when} {step}" for when, step in moments), "during ingest", *inside(BATCH), *more)
        if OF_MODES[world.spec.write]:
            world.produce(12)  # the next batch finds rows of its keys
            assert start.run("none") == "done"
            killed_at(*OF_MODES[world.spec.write])
        for moment in inside(["dead letters drop_branches"]):
            killed_at("after prepare", moment)
        for column, moment in enumerate(inside(["rows change_schema"])):
            add_column(world, column)
            killed_at(moment)
        if more:
            add_column(world, 2)
            killed_at("inside log")
        assert start.run("none") == "done"

    assert_exactly_once(world, kafka_side(world))


@on_both_readers
def test_killed_while_it_pauses_the_table_it_pauses_it_once_more_or_stays_paused(world: World, tmp_path: Path) -> None:
    strict = replace(world.spec, bad_record_limit=BadRecordLimit(share=0.1, at_least=1))
    world = replace(world, setting=replace(world.setting, spec=strict))
    world.produce(6)
    with drivers(world, tmp_path) as start:
        assert start.run("group", "written rows set_property_at") == "killed"
        assert not paused(world)
        assert start.run("driver", "committed rows set_property_at") == "killed"
        assert paused(world)
        assert "PausedError" in start.run("none")
        assert world.standing().state.epoch == 0

        resume(world.lake, world.spec)
        assert start.run("none") == "done"

    assert_exactly_once(world, kafka_side(world))


def test_killed_while_it_expires_snapshots_it_leaves_orphans_and_nothing_else(world: World, tmp_path: Path) -> None:
    keep = replace(world.spec.maintain, keep_snapshots=KeepSnapshots(count=1, daily=0))
    world = replace(world, setting=replace(world.setting, spec=replace(world.spec, maintain=keep)))
    world.produce(4)
    with drivers(world, tmp_path) as start:
        for moment in (*inside(["rows expire"]), *inside(["dead letters expire"])):
            assert start.run("driver", moment) == "killed", moment
            world.produce(4)
        assert start.run("none") == "done"

    last = world.standing()
    left = {each.snapshot_id for each in world.table().metadata.snapshots}
    assert left == {last.view.head, last.carrier.id}, "the head, which may be a rewrite, and the last batch"
    assert_exactly_once(world, kafka_side(world))


@in_every_mode
def test_killed_in_the_middle_a_table_of_each_mode_has_what_the_topic_says(
    local_world: World, tmp_path: Path, write: WriteMode
) -> None:
    who = cycle(["driver", "group"])
    local_world.produce(12)
    with drivers(local_world, tmp_path) as start:
        assert start.run("none") == "done"
        for moment in ("written rows publish", *OF_MODES[write]):
            local_world.produce(12)
            assert start.run(next(who), moment) == "killed", moment
        assert start.run("none") == "done"

    assert_exactly_once(local_world, kafka_side(local_world))


def test_killed_during_a_rewrite_a_table_has_its_rows_and_is_rewritten_later(
    services: LocalServices, tmp_path: Path
) -> None:
    world = with_mode(with_trigger(new_world(services, jdbc_catalog(tmp_path / "warehouse")), rows=6), "upsert")
    moments, who = ("during rewrite", *inside(["rows rewrite"])), cycle(["group", "driver"])
    with drivers(world, tmp_path) as start:
        for moment in moments:
            world.produce(24)
            assert start.run(next(who), moment) == "killed", moment
            proof = verify_table(world.lake, world.spec)
            assert proof.clean, [str(finding) for finding in proof.findings]
        world.produce(24)
        assert start.run("none") == "done"

    assert any(REWRITTEN_BY in (each.summary or {}) for each in world.table().metadata.snapshots)
    assert_exactly_once(world, kafka_side(world))


def paused(world: World) -> bool:
    return PAUSED_PROPERTY in world.table().properties


def add_column(world: World, number: int) -> None:
    more = [{"name": f"more_{n}", "type": ["null", "string"], "default": None} for n in range(number + 1)]
    register(world.setting.services, f"{world.topic}-value", {**SCHEMA, "fields": [*SCHEMA["fields"], *more]})
