"""Does any of many hostile values kill an ingest task, or get lost? Each has one outcome, for each format.

Each format runs in a process of its own: values are decoded and written in rounds, and the offsets of rows and dead
letters are read back from the files. A round that takes too long is ended with a traceback. A seed and a round's number
give the same values again. Writes a section of bench/RESULTS.md.

Usage: python -m bench.hostile [--records N] [--seed N] [--first-round N] [--only FORMAT...]
"""

from __future__ import annotations

import argparse
import faulthandler
import json
import os
import resource
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import cast

import pyarrow.parquet as pq
from pyiceberg.schema import assign_fresh_schema_ids

from bench.frazil_drain import spec_of
from bench.hostile_formats import HOSTILE_FORMATS
from bench.hostile_payloads import BOMBS, HostileFormat, hostile_values
from bench.sections import put
from frazil.adapters.iceberg.types import to_partition_spec, to_schema
from frazil.formats.open import map_schema, plain_columns
from frazil.materialize.ingest.task import ingest
from frazil.materialize.layout import ADDED_DEAD_LETTER_COLUMNS, DEAD_LETTER_COLUMNS, metadata_columns
from frazil.model.columns import Column
from frazil.model.ingested import IngestTask, TaskContext, TaskResult, WriteTarget, WrittenFile
from frazil.model.plan import OffsetRange, WriterSchemas
from frazil.model.schemas import RegisteredSchema
from frazil.model.settings import RegistrySettings
from frazil.model.spec import FormatSettings, TableSpec
from tests.fakes.clients_in_memory import RegistryInMemory
from tests.fakes.reader_in_memory import ReaderInMemory

HOME = Path(".frazil/bench-hostile")
TITLE = "Hostile values"
TOPIC = "hostile"
PER_ROUND = 100_000
CHUNK = 10_000
ROUND_SECONDS = 300
MOST_MB = 1_024
SHARE_IN_PYTHON = 10
"""Formats that only decoders in Python read get one value of so many: they take much longer."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of the values of one round, or of all rounds. Change events may delete rows, or be skipped."""

    values: int
    rows: int
    deletes: int
    skipped: int
    dead_letters: dict[str, int]
    cpu_seconds: float
    peak_megabytes: int

    def plus(self, other: Outcome) -> Outcome:
        return Outcome(
            self.values + other.values,
            self.rows + other.rows,
            self.deletes + other.deletes,
            self.skipped + other.skipped,
            dict(Counter(self.dead_letters) + Counter(other.dead_letters)),
            self.cpu_seconds + other.cpu_seconds,
            max(self.peak_megabytes, other.peak_megabytes),
        )


class UnaccountedError(Exception):
    """Values have no outcome, or more than one."""


def main() -> None:
    names = [each.name for each in HOSTILE_FORMATS]
    parser = argparse.ArgumentParser(prog="python -m bench.hostile", description=__doc__)
    parser.add_argument(
        "--records",
        type=int,
        default=10_000_000,
        help=f"values of each format; a {SHARE_IN_PYTHON}th if it is decoded in Python",
    )
    parser.add_argument("--seed", type=int, default=1, help="another seed gives other values")
    parser.add_argument("--first-round", type=int, default=0, help="the round to begin with")
    parser.add_argument("--only", nargs="+", choices=names, default=names, help="formats")
    parser.add_argument("--here", action="store_true", help="run in this process, and print the outcome as JSON")
    asked = parser.parse_args()
    if asked.here:
        print(json.dumps(asdict(run(_named(asked.only[0]), asked.records, asked.seed, asked.first_round))))
        return
    found = {name: _in_its_process(_named(name), asked) for name in asked.only}
    put(TITLE, report(asked, found))
    if not all(isinstance(each, Outcome) for each in found.values()):
        raise SystemExit(f"hostile values killed or lost something: see {HOME}")


def _named(name: str) -> HostileFormat:
    return next(each for each in HOSTILE_FORMATS if each.name == name)


def _in_its_process(given: HostileFormat, asked: argparse.Namespace) -> Outcome | str:
    """Run a format in a new process; return what it found, or how it ended."""
    print(f"── {given.name}", file=sys.stderr)
    records = asked.records if given.is_native else max(1, asked.records // SHARE_IN_PYTHON)
    command = [sys.executable, "-X", "faulthandler", "-m", "bench.hostile", "--here", "--only", given.name]
    command += ["--records", str(records), "--seed", str(asked.seed), "--first-round", str(asked.first_round)]
    done = subprocess.run(command, check=False, stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        return f"ended with exit status {done.returncode}"
    return Outcome(**json.loads(done.stdout))


def run(given: HostileFormat, records: int, seed: int, first_round: int = 0) -> Outcome:
    """Run the rounds of a format. Raises UnaccountedError for the first round with a value that is lost or double."""
    total = Outcome(0, 0, 0, 0, {}, 0.0, 0)
    rounds = range(first_round, first_round + -(-records // PER_ROUND))
    for number in rounds:
        faulthandler.dump_traceback_later(ROUND_SECONDS, exit=True)
        folder = HOME / given.name.replace(" ", "-")
        total = total.plus(run_round(given, min(PER_ROUND, records), seed * 1_000_000 + number, folder))
        faulthandler.cancel_dump_traceback_later()
        if total.peak_megabytes > MOST_MB:
            raise MemoryError(
                f"{given.name}: {total.peak_megabytes} MB in round {number}, at most {MOST_MB} are expected"
            )
        if number % 10 == 0:
            print(f"{given.name}: round {number}, {total}", file=sys.stderr)
    return total


def run_round(given: HostileFormat, count: int, seed: int, folder: Path) -> Outcome:
    """Decode and write hostile values, and read back which became rows and which dead letters."""
    shutil.rmtree(folder, ignore_errors=True)
    values = hostile_values(given, count, seed)
    reader = ReaderInMemory([(b"k", value) for value in values], CHUNK)
    began = time.process_time()
    result = ingest(task_of(given, count, folder), reader=reader, registry=_registry(given))
    seconds = time.process_time() - began
    _account_for(result, count, where=f"{given.name}, seed {seed}")
    (only,) = result.ranges
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    counts, reasons = only.counts, dict(only.dead_letters_by_reason)
    return Outcome(count, counts.rows, counts.deletes, counts.skipped, reasons, seconds, peak)


def _registry(given: HostileFormat) -> RegistryInMemory:
    schemas = {} if given.schema is None else {given.schema.id: given.schema}
    return RegistryInMemory(cast("dict[int, RegisteredSchema]", schemas))


def task_of(given: HostileFormat, count: int, folder: Path) -> IngestTask:
    spec = _spec(given)
    if given.schema is None:
        mapped = plain_columns(spec.value, spec.value_settings)
    else:
        mapped = map_schema(given.schema, spec.value_settings).columns
    context = TaskContext(
        spec=spec,
        batch_id="b",
        file_prefix="w-1",
        rows=_target(folder / "rows", (*mapped, *metadata_columns(spec, None))),
        dead_letters=_target(folder / "dead", (*DEAD_LETTER_COLUMNS, *ADDED_DEAD_LETTER_COLUMNS)),
        former_names={},
        schemas=WriterSchemas({} if given.schema is None else {given.schema.id: given.schema}, {}),
        kafka={},
        registry=RegistrySettings(""),
        storage={},
        source_ids={TOPIC: ("id-1", 0)},
    )
    return IngestTask(context, (OffsetRange(TOPIC, 0, 0, count, count, 2**63),))


def _spec(given: HostileFormat) -> TableSpec:
    spec = spec_of(TOPIC)
    fields = "" if given.fields is None else json.dumps(given.fields)
    return replace(
        spec,
        value=given.word,
        write="append" if given.events is None else "upsert",
        wire_format=given.wire_format,
        on_tombstone="dead_letter",
        value_settings=FormatSettings(fields=fields, change_events=given.events),
        metadata=replace(spec.metadata, keep=("partition", "offset", "timestamp", "key", "schema_uuid")),
    )


def _target(folder: Path, columns: Sequence[Column]) -> WriteTarget:
    schema = assign_fresh_schema_ids(to_schema(columns))
    partitions = to_partition_spec(schema, []).model_dump_json()
    return WriteTarget("bench.hostile", str(folder.absolute()), schema.model_dump_json(), partitions, {})


def _account_for(result: TaskResult, count: int, *, where: str) -> None:
    """Raise UnaccountedError unless each offset has one outcome, as the counts say. Skipped ones are counted only."""
    (only,) = result.ranges
    rows, dead = list(_offsets(result.row_files, "kafka_offset")), list(_offsets(result.dead_letter_files, "offset"))
    deletes = [offset for each in (*result.deletes, *result.truncates) for offset in each.offset]
    counts, found = only.counts, rows + dead + deletes
    counted = (only.end, counts.read, counts.rows, counts.dead_letters, counts.deletes)
    seen = (count, count, len(rows), len(dead), len(deletes))
    if counted != seen or len(found) + counts.skipped != count or not _are_distinct(found, count):
        raise UnaccountedError(
            f"{where}: {count} values, {only}, {len(rows)} rows, {len(dead)} dead letters and {len(deletes)} deletes"
        )


def _are_distinct(offsets: Sequence[int], count: int) -> bool:
    return len(set(offsets)) == len(offsets) and set(offsets) <= set(range(count))


def _offsets(files: Sequence[WrittenFile], column: str) -> Iterator[int]:
    for file in files:
        yield from pq.read_table(file.path.removeprefix("file://"), columns=[column]).column(0).to_pylist()


def report(asked: argparse.Namespace, found: dict[str, Outcome | str]) -> str:
    return "\n".join(
        [
            f"`python -m bench.hostile --records {asked.records} --seed {asked.seed}`, {datetime.now(UTC):%Y-%m-%d}, on"
            f" {os.cpu_count()} cores shared with other work (load average {os.getloadavg()[0]:.0f}). Random bytes, cut"
            " and changed values, deep nesting, huge lengths and counts, unknown schemas, tombstones, and for AWS Glue"
            f" compression bombs of up to {max(BOMBS):,} bytes. Values are decoded and written by ingest tasks of"
            f" {PER_ROUND:,}; each is read back from exactly one file, as a row or a dead letter. Change events may"
            f" also delete a row or all, or be skipped. A process may take {MOST_MB:,} MB.",
            "",
            "| format | values | rows | deletes | skipped | dead letters | CPU µs a value | peak MB |",
            "|---|---|---|---|---|---|---|---|",
            *(_row(name, outcome) for name, outcome in found.items()),
            "",
            *(_reasons(name, outcome) for name, outcome in found.items() if isinstance(outcome, Outcome)),
        ]
    )


def _row(name: str, outcome: Outcome | str) -> str:
    if isinstance(outcome, str):
        return f"| {name} | **{outcome}** | | | | | | |"
    micros = outcome.cpu_seconds / outcome.values * 1e6
    dead = sum(outcome.dead_letters.values())
    counts = " | ".join(f"{each:,}" for each in (outcome.values, outcome.rows, outcome.deletes, outcome.skipped, dead))
    return f"| {name} | {counts} | {micros:.1f} | {outcome.peak_megabytes} |"


def _reasons(name: str, outcome: Outcome) -> str:
    counts = ", ".join(f"{reason} {count:,}" for reason, count in Counter(outcome.dead_letters).most_common())
    return f"- {name}: {counts}."


if __name__ == "__main__":
    main()
