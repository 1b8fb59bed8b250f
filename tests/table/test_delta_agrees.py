"""Whatever partition values hold and whatever happens to the table, three engines read the same rows."""

from __future__ import annotations

import os
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyiceberg.expressions import EqualTo, IsNull
from pyiceberg.table import Table

from frazil.adapters.delta.log import DeltaRsLogs
from frazil.adapters.iceberg.lake import IcebergLake
from frazil.adapters.iceberg.scan import metadata_location
from frazil.delta.standing import log_standing
from frazil.materialize.ingest.distribute import write_target
from frazil.materialize.ingest.write import DataFileWriter
from frazil.materialize.readers.delta import announce_delta
from frazil.materialize.state import CHECKPOINT_TAG
from frazil.model.columns import Column, Scalar
from frazil.model.delta import LogIsCurrent, LogWritten
from frazil.model.settings import CatalogSettings
from frazil.model.snapshot import TableView
from tests.fakes.duckdb_once import engine

IDENTIFIER = "lake.parts"
Contents = Counter[tuple[int, str | None]]
"""Rows of (n, part), with how often each is there."""

EXAMPLES = int(os.environ.get("FRAZIL_DELTA_EXAMPLES", "4"))
"""How many histories are tried. A nightly run can raise it."""

TEXTS = st.one_of(
    st.none(),
    st.sampled_from(["", " ", "%", "%20", "a b", "a/b", "a?b#c", "100%", "&=+:", "ä", "ä%C3", "日本", "..", "😀"]),
    st.text(alphabet="/%&:#?+= .äaé日😀\\'\"", max_size=6),
)
APPEND = st.builds(lambda values: ("append", values), st.lists(TEXTS, min_size=1, max_size=3))
REMOVE = st.tuples(st.sampled_from(["delete", "erase"]), st.integers(0, 99))
KEEP = st.tuples(st.sampled_from(["compact", "expire"]), st.none())
STEPS = st.tuples(APPEND | REMOVE | KEEP, st.booleans())
"""What happens, to what, and whether the log is brought to the head after it."""


class Parts:
    """A table partitioned by text; `rows` are what it should hold, `logged` what its Delta log should."""

    def __init__(self, folder: Path) -> None:
        self.lake = IcebergLake(CatalogSettings("jdbc", str(folder)))
        self.logs = DeltaRsLogs(self.lake.storage)
        columns = (Column("n", Scalar("long")), Column("part", Scalar("string")))
        self.lake.create(IDENTIFIER, columns, partition_by=("part",), properties={}, summary={})
        self.rows: Contents = Counter()
        self.logged: Contents = Counter()
        self.batches = 0

    @property
    def view(self) -> TableView:
        view = self.lake.load(IDENTIFIER)
        assert view is not None
        return view

    @property
    def table(self) -> Table:
        return self.lake.catalog.load_table(IDENTIFIER)

    @property
    def folder(self) -> str:
        return self.view.location.removeprefix("file://")

    def take(self, what: str, on: Any) -> None:
        getattr(self, what)(on)

    def append(self, values: Sequence[str | None]) -> None:
        """A batch as `materialize` writes it: two rows for each value."""
        view, self.batches = self.view, self.batches + 1
        files = DataFileWriter(
            write_target(view), storage=self.lake.storage, prefix=f"w{self.batches}", target_bytes=1000
        )
        rows = [(100 * self.batches + n, value) for n in range(2) for value in values]
        files.add(pa.RecordBatch.from_pylist([{"n": n, "part": part} for n, part in rows], files.arrow_schema))
        assert view.head is not None
        self.lake.stage(view, base=view.head, branch="stage", files=files.close(), summary={})
        self.lake.publish(self.view, branch="stage", tag=CHECKPOINT_TAG, drop=["stage"])
        self.rows += Counter(rows)

    def delete(self, pick: int) -> None:
        """A whole partition, which removes files and rewrites none."""
        parts = list({part for _, part in self.rows})
        if parts:
            part = parts[pick % len(parts)]
            self.table.delete(IsNull("part") if part is None else EqualTo("part", part))
            self.rows = Counter({row: count for row, count in self.rows.items() if row[1] != part})

    def erase(self, pick: int) -> None:
        """Rows of files that hold others: an erasure, which rewrites the files."""
        numbers = sorted({n for n, _ in self.rows})
        if numbers:
            number = numbers[pick % len(numbers)]
            self.table.delete(EqualTo("n", number))
            self.rows = Counter({row: count for row, count in self.rows.items() if row[0] != number})

    def compact(self, _: None) -> None:
        if self.rows:
            self.table.overwrite(self.table.scan().to_arrow())

    def expire(self, _: None) -> None:
        """Snapshots that no branch and no tag keeps, and the files that are in none of the others."""
        self.table.maintenance.expire_snapshots().older_than(datetime.now() + timedelta(1)).commit()
        live = {path.removeprefix("file://") for path in reachable(self.table)}
        for file in Path(self.folder).glob("data/**/*.parquet"):
            if str(file) not in live:
                file.unlink()

    def announce(self) -> None:
        announced = announce_delta(self.lake, lambda: self.logs, self.view)
        assert isinstance(announced, LogWritten | LogIsCurrent), announced
        assert log_standing(self.view, self.logs).state == "current"
        self.logged = Counter(self.rows)


def reachable(table: Table) -> Iterator[str]:
    for snapshot in table.snapshots():
        for manifest in snapshot.manifests(table.io):
            for entry in manifest.fetch_manifest_entry(table.io):
                yield entry.data_file.file_path


def contents(rows: pa.Table) -> Contents:
    return Counter((row["n"], row["part"]) for row in rows.to_pylist())


def in_duckdb(source: str) -> Contents:
    return contents(engine().execute(f"SELECT n, part FROM {source}").to_arrow_table())


@settings(
    max_examples=EXAMPLES,
    phases=(Phase.explicit, Phase.reuse, Phase.generate),  # to shrink a failure would take minutes
    suppress_health_check=list(HealthCheck),
)
@given(steps=st.lists(STEPS, min_size=2, max_size=5))
def test_all_engines_agree_after_every_step(steps: list[tuple[Any, bool]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        parts = Parts(Path(folder))
        parts.announce()
        for (what, on), announced in [(("append", ("a b", None, "ä%")), True), *steps, (("compact", None), True)]:
            parts.take(what, on)
            if announced:
                parts.announce()

            assert contents(parts.table.scan().to_arrow()) == parts.rows
            assert in_duckdb(f"iceberg_scan('{metadata_location(parts.view)}')") == parts.rows
            assert contents(DeltaTable(parts.folder).to_pyarrow_table()) == parts.logged
            assert in_duckdb(f"delta_scan('{parts.folder}')") == parts.logged
