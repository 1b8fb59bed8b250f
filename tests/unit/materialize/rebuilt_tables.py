"""Tables that are rebuilt: their specs, a process that does it, and one that dies."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

from changelogs import NAMES, Changelog, Sent
from values_of_tables import SPEC
from whole_batches import World, drained

from frazil.adapters.iceberg.rebuild_lake import RebuildLake
from frazil.materialize.rebuild.perform import Rebuild
from frazil.materialize.rebuild.rewind import Target
from frazil.materialize.state import Standing, standing
from frazil.model.plan import TopicFacts
from frazil.model.spec import BadRecordLimit, Start, StartTimestamp, TableSpec, Trigger
from frazil.ports import Topics
from tests.fakes.duckdb_once import engine

FIELDS = replace(SPEC.value_settings, fields=json.dumps({"n": "long"}))
BUCKET = "bucket(3, kafka_key)"
SPECS: dict[str, TableSpec] = {
    "append": replace(SPEC, write="append", value="json", on_tombstone="row"),
    "typed": replace(SPEC, write="append", value="json", on_tombstone="dead_letter", value_settings=FIELDS),
    "upsert": replace(SPEC, write="upsert", value="json", on_tombstone="delete", partition_by=(BUCKET,)),
    "deduplicate": replace(SPEC, write="deduplicate", value="json", on_tombstone="row", sort_by=("kafka_key",)),
    "history": replace(SPEC, write="history", value="json", on_tombstone="delete"),
}
SMALL = Trigger(SPEC.trigger.every, rows=3, bytes=1_000_000)
RECORDS: tuple[Sent, ...] = (("a", 1), ("b", 1), ("a", 2), (None, 3), ("c", 4), ("b", None), ("a", 2), ("d", 5))
NO_LIMIT = BadRecordLimit.off()


class KilledError(BaseException):
    """The process died."""


@dataclass(frozen=True)
class TopicsNow:
    """The topics of a world as they are when they are asked for (`ports.Topics`)."""

    world: World

    def first_offsets(self, facts: TopicFacts, start: Start) -> Mapping[int, int]:
        """Offset 5 is the first one with a timestamp of any rewind."""
        return {0: 5} if isinstance(start, StartTimestamp) else self.world.topics.first_offsets(facts, start)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.world.topics, name)


def of_mode(name: str, changelog: Changelog) -> None:
    spec = SPECS[name]
    changelog.spec = replace(spec, table=changelog.spec.table, trigger=SMALL, bad_record_limit=NO_LIMIT)


def rebuild(changelog: Changelog, **more: Any) -> Rebuild:
    """A new process, for the changelog's present spec."""
    world, spec = changelog.world, changelog.spec
    built = RebuildLake(world.lake, (spec.identifier, spec.dead_letters_identifier))
    given = {"wait": lambda seconds: None, "clock": lambda: 0.0, "report": lambda progress: None, **more}
    clients = replace(world.table(spec).clients, topics=cast(Topics, TopicsNow(world)))
    return Rebuild(spec, clients, built, f"r{next(NAMES)}", **given)


def rewind(changelog: Changelog, target: Target, **more: Any) -> Rebuild:
    return rebuild(changelog, target=target, **more)


def stands(changelog: Changelog) -> Standing:
    return standing(changelog.view, pipeline=changelog.spec.pipeline)


def rows(changelog: Changelog, spec: TableSpec) -> list[dict[str, Any]]:
    view = changelog.world.lake.load(spec.identifier)
    assert view is not None
    names = sorted(column.name for column in view.columns)
    found = [row for each in changelog.world.lake.read(view, columns=names, equal={}) for row in each.to_pylist()]
    return sorted(found, key=lambda row: int(row["kafka_offset"]))


def letters(changelog: Changelog) -> list[int]:
    view = changelog.world.lake.load(changelog.spec.dead_letters_identifier)
    assert view is not None
    equal = {"table_uuid": changelog.view.uuid}
    batches = changelog.world.lake.read(view, columns=["offset"], equal=equal)
    return sorted(int(row["offset"]) for each in batches for row in each.to_pylist())


def check_as_new(changelog: Changelog) -> None:
    """The table is what a new one would be that was read by the same spec, and is proven."""
    spec = replace(changelog.spec, table=f"t{next(NAMES)}", trigger=SPEC.trigger)
    drained(changelog.world, spec)
    view = changelog.world.lake.load(spec.identifier)
    assert view is not None
    assert rows(changelog, changelog.spec) == rows(changelog, spec)
    new, here = standing(view, pipeline=spec.pipeline).state, stands(changelog).state
    assert here.total() == new.total()
    assert {p.next for p in here.sources[0].partitions.values()} == {p.next for p in new.sources[0].partitions.values()}
    assert len(letters(changelog)) == here.total().dead_letters
    for verification in (changelog.verify(), changelog.against_kafka()):
        assert verification.findings == ()
    refs = (*changelog.view.branches, *changelog.view.tags)
    assert not [name for name in refs if name.startswith("frazil_rebuild")]


@contextmanager
def killed_at(changelog: Changelog, number: int, *, after: bool) -> Iterator[None]:
    """Let the process die before or after its commit of this number, from 0 on."""
    catalog: Any = changelog.world.lake.catalog
    commit, done = catalog.commit_table, 0

    def committing(*given: Any) -> Any:
        nonlocal done
        done += 1
        if done - 1 == number and not after:
            raise KilledError
        answer = commit(*given)
        if done - 1 == number:
            raise KilledError
        return answer

    catalog.commit_table = committing
    try:
        yield
    finally:
        catalog.commit_table = commit


def move(changelog: Changelog, snapshot_id: int) -> None:
    """Point `main` to a snapshot, as another engine does that rolls back."""
    table = changelog.world.lake.catalog.load_table(changelog.spec.identifier)
    with table.manage_snapshots() as manage:
        manage.set_current_snapshot(snapshot_id)


def seen_by_readers(changelog: Changelog, snapshot_id: int | None = None) -> tuple[list[Any], list[Any]]:
    """Return the offsets that PyIceberg and DuckDB read."""
    table = changelog.world.lake.catalog.load_table(changelog.spec.identifier)
    theirs = table.scan(snapshot_id=snapshot_id).to_arrow().column("kafka_offset").to_pylist()
    version = "" if snapshot_id is None else f", snapshot_from_id = {snapshot_id}"
    query = f"SELECT kafka_offset FROM iceberg_scan('{table.metadata_location}'{version}) ORDER BY ALL"
    return sorted(theirs), [row[0] for row in engine().execute(query).fetchall()]


def appended(tmp_path: Path) -> Changelog:
    """A table that has every record, in three batches."""
    log = Changelog.at(tmp_path)
    of_mode("append", log)
    log.send(*RECORDS)
    log.catch_up()
    return log
