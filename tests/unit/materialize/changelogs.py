"""A topic whose records follow keys, its table, and a model of both in plain Python."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
from hypothesis import strategies as st
from pyiceberg.io.pyarrow import _dataframe_to_data_files
from values_of_tables import SPEC
from whole_batches import World, drained

from frazil.adapters.iceberg.lake import IcebergLake
from frazil.materialize.state import standing
from frazil.model.ingested import DeletedRows
from frazil.model.probe import StoredFile
from frazil.model.progress import Counts
from frazil.model.settings import CatalogSettings
from frazil.model.snapshot import TableView
from frazil.model.spec import TableSpec
from frazil.proof.verification import Verification
from frazil.verify.against_kafka import KafkaSide
from frazil.verify.ranges import with_chain
from frazil.verify.table import verify_table

UPSERT = replace(SPEC, write="upsert", on_tombstone="delete", value="json")
NAMES = count()
Sent = tuple[str | None, int | None]
"""A key and a value; None is a null."""
SENT = st.tuples(st.sampled_from("abcde") | st.none(), st.integers(0, 9) | st.none())


def in_json(value: Mapping[str, object]) -> bytes:
    return json.dumps(value).encode()


@dataclass
class Changelog:
    """A topic of one partition, its table, and what the table should have."""

    world: World
    spec: TableSpec
    state: dict[str, int] = field(default_factory=dict)
    """The offset of the newest record of each key that was not deleted."""
    counts: Counts = field(default_factory=Counts)
    payload: Callable[[Mapping[str, object]], bytes] = in_json

    @classmethod
    def at(cls, folder: Path, **changes: object) -> Changelog:
        spec = replace(UPSERT, table=f"t{next(NAMES)}", **changes)  # type: ignore[arg-type]
        return cls(World(IcebergLake(CatalogSettings("jdbc", str(folder)))), spec)

    def send(self, *records: Sent) -> None:
        for key, value in records:
            offset = len(self.world.values)
            self.world.values.append(None if value is None else self.payload({"n": value}))  # type: ignore[arg-type]
            if key is None:
                self.counts += Counts(read=1, dead_letters=1)
                continue
            self.world.keys[offset] = key.encode()
            if value is None:
                self.counts += Counts(read=1, deletes=1)
                self.state.pop(key, None)
            else:
                self.counts += Counts(read=1, rows=1)
                self.state[key] = offset

    def catch_up(self) -> None:
        drained(self.world, self.spec)

    @property
    def view(self) -> TableView:
        view = self.world.lake.load(self.spec.identifier)
        assert view is not None
        return view

    def files(self) -> Sequence[StoredFile]:
        return self.world.lake.stored_files(self.view)

    def rows(self) -> dict[str, int]:
        found: dict[str, int] = {}
        for batch in self.world.lake.read(self.view, columns=["kafka_key", "kafka_offset"], equal={}):
            for row in batch.to_pylist():
                assert row["kafka_key"] not in found
                found[row["kafka_key"]] = row["kafka_offset"]
        return found

    def verify(self) -> Verification:
        return with_chain(self.world.lake, self.spec, verify_table(self.world.lake, self.spec))

    def against_kafka(self) -> Verification:
        side = KafkaSide(self.world.topics, cast(Any, self.world), self.world.registry)
        return verify_table(self.world.lake, self.spec, kafka=side)

    @property
    def next_offset(self) -> int:
        """The first offset that the table has not read."""
        (source,) = standing(self.view, pipeline=self.spec.pipeline).state.sources
        return source.partitions[0].next

    def compact(self, *, tombstones: bool) -> None:
        """Leave the newest record of each key, but for those that delete it if `tombstones` is true."""
        newest = {key: offset for offset, key in self.world.keys.items()}
        for offset, key in self.world.keys.items():
            if newest[key] != offset or (tombstones and self.world.values[offset] is None):
                self.world.gone.add(offset)

    def check(self) -> None:
        assert self.rows() == self.state
        verification = self.verify()
        assert verification.findings == ()
        assert verification.counts == self.counts

    def others(self, files: Sequence[object] = (), deletes: Sequence[DeletedRows] = ()) -> None:
        """Commit as another engine does."""
        lake, view = self.world.lake, self.world.lake.load(self.spec.identifier)
        assert view is not None and view.head is not None
        lake.stage(view, base=view.head, branch="theirs", files=files, summary={}, deletes=deletes)  # type: ignore[arg-type]
        view = lake.load(self.spec.identifier)
        assert view is not None
        lake.publish(view, branch="theirs", tag="theirs", drop=["theirs"])

    def replace_rows(self, change: Callable[[pa.Table], pa.Table]) -> None:
        """Put other rows into the table, as another engine does that rewrites all files."""
        loaded = self.world.lake.catalog.load_table(self.spec.identifier)
        with loaded.transaction() as transaction:
            changed = change(loaded.scan().to_arrow())
            files = list(_dataframe_to_data_files(loaded.metadata, changed, loaded.io))
            with transaction.update_snapshot().overwrite() as replacing:
                for task in loaded.scan().plan_files():
                    replacing.delete_data_file(task.file)
                for file in files:
                    replacing.append_data_file(file)
