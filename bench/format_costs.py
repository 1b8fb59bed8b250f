"""What each value format costs an ingest task: fetch, decode and write, in one process.

Usage: python -m bench --only formats [--format-rows N] [--format-rounds N]
"""

from __future__ import annotations

import base64
import shutil
import statistics
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

from bench.comparison import Target
from bench.format_topics import (
    AVRO,
    BAD_EVERY,
    FORMATS,
    JSON_EXTRA,
    JSON_SCHEMA,
    PROTOBUF,
    SCHEMA_IDS,
    OrderFormat,
    Variant,
    topic_of,
)
from bench.frazil_drain import settings_of
from bench.planned_task import knowing, planned_task
from frazil.adapters.kafka.reader import KafkaReader
from frazil.adapters.registry import ConfluentRegistry
from frazil.local.supervisor import LocalServices
from frazil.materialize.ingest.task import ingest
from frazil.model.ingested import IngestTask
from frazil.model.policies import KEPT, Policies, Policy
from frazil.model.secret import NamedKey, Secret
from frazil.model.spec import BadRecordLimit, FormatSettings, TableSpec

TITLE = "Value formats"
HASHED = ("email", "session_id")
KEY = NamedKey("bench", Secret(base64.b64encode(bytes(32)).decode()))
COST_TARGETS = {"ids": 1.3, "hashed": 1.1}
"""CPU time, as a multiple of that of good records of 1 schema id."""
BAD_TARGET = 0.95
"""Rows per CPU-second with bad records, as a share of those without."""
WORDS = {
    "good": "good",
    "bad": f"1 bad record in {BAD_EVERY}",
    "ids": f"{SCHEMA_IDS} schema ids",
    "reordered": "fields in another order",
    "hashed": "2 hashed columns",
}

Found = Mapping["Case", Sequence[float]]
"""CPU microseconds a record, by round."""


@dataclass(frozen=True, slots=True)
class Case:
    """A topic, read with or without two hashed columns."""

    format: OrderFormat
    variant: Variant
    hashed: bool = False

    @property
    def what(self) -> str:
        return "hashed" if self.hashed else self.variant

    @property
    def table(self) -> str:
        return topic_of(self.format, self.variant) + ("_hashed" if self.hashed else "")


SPEED_TARGETS = {
    Case(PROTOBUF, "good"): 0.9,
    Case(PROTOBUF, "reordered"): 0.9,
    Case(JSON_SCHEMA, "good"): 0.6,
    Case(JSON_EXTRA, "good"): 0.5,
}
"""Rows per CPU-second, as a share of Avro's."""

KINDS = (*WORDS,)
"""What cases differ in, beside their format. Good records are what the others are compared with."""

CASES = tuple(
    case
    for each in FORMATS
    for case in (*(Case(each, variant) for variant in each.variants), Case(each, "good", hashed=True))
)


def rounds(
    services: LocalServices,
    warehouses: Path,
    ids: Mapping[str, Sequence[int]],
    *,
    cases: Sequence[Case],
    records: int,
    count: int,
) -> Found:
    """Run the cases in turns, every other round backwards."""
    tasks = {case: _task(services, warehouses / case.table, case, ids, records) for case in cases}
    found: dict[Case, list[float]] = {case: [] for case in cases}
    context = tasks[cases[0]].context
    assert context.registry is not None
    with closing(KafkaReader(context.kafka)) as reader, closing(ConfluentRegistry(context.registry)) as registry:
        for number in range(count + 1):
            print(f"round {number} of {count}", file=sys.stderr)
            for case in cases if number % 2 else reversed(cases):
                began = time.process_time()
                result = ingest(tasks[case], reader=reader, registry=registry)
                micros = (time.process_time() - began) / records * 1e6
                dead = sum(each.counts.dead_letters for each in result.ranges)
                assert sum(each.counts.read for each in result.ranges) == records
                assert dead == (-(-records // BAD_EVERY) if case.variant == "bad" else 0), (case.table, dead)
                if number:  # the first round waits for the disk and fills caches
                    found[case].append(micros)
                for file in (*result.row_files, *result.dead_letter_files):
                    Path(file.path.removeprefix("file://")).unlink()
    return found


def _task(
    services: LocalServices, warehouse: Path, case: Case, ids: Mapping[str, Sequence[int]], records: int
) -> IngestTask:
    """Return the task that reads the whole topic."""
    topic = topic_of(case.format, case.variant)
    shutil.rmtree(warehouse, ignore_errors=True)
    settings = settings_of(services.bootstrap_servers, services.schema_registry_url, warehouse, topic, rows=records)
    spec = _spec(settings.tables[0], case)
    return knowing(planned_task(replace(settings, tables=(spec,))), ids[topic])


def _spec(spec: TableSpec, case: Case) -> TableSpec:
    policies = _hashing(case.format) if case.hashed else Policies()
    return replace(
        spec,
        value=case.format.word,
        bad_record_limit=BadRecordLimit.off(),
        policies=policies,
        value_settings=FormatSettings(
            fields=case.format.fields, policies=policies, hash_key=KEY if case.hashed else None
        ),
    )


def _hashing(each: OrderFormat) -> Policies:
    masks = tuple((name, Policy("hash")) for name in HASHED)
    has_extra = each.word in ("json", "json_schema")
    return Policies((*masks, ("_extra", KEPT)) if has_extra else masks, hash_key=KEY.id)


def ratios(found: Found, case: Case, base: Case) -> list[float]:
    """Return the cost of a case as a multiple of another's, by round."""
    return [one / other for one, other in zip(found[case], found[base], strict=True)]


def targets(found: Found) -> Iterator[Target]:
    avro = Case(AVRO, "good")
    for case, target in SPEED_TARGETS.items():
        if case not in found:
            continue
        times = [1 / ratio for ratio in ratios(found, case, avro)]
        name = case.format.name if case.what == "good" else f"{case.format.name}, {WORDS[case.what]}"
        measure = f"{name}: rows per CPU-second against Avro, median ({_span(times)})"
        yield Target(measure, target, statistics.median(times))
    for case in found:
        if case.what in COST_TARGETS:
            times = ratios(found, case, Case(case.format, "good"))
            measure = f"{case.format.name}: CPU time with {WORDS[case.what]}, median ({_span(times)})"
            yield Target(measure, COST_TARGETS[case.what], statistics.median(times), at_most=True)
        if case.what == "bad":
            shares = [1 / ratio for ratio in ratios(found, case, Case(case.format, "good"))]
            measure = f"{case.format.name}: rows per CPU-second with {WORDS['bad']}, median ({_span(shares)})"
            yield Target(measure, BAD_TARGET, statistics.median(shares))


def _span(values: Sequence[float]) -> str:
    return f"{min(values):.2f} to {max(values):.2f}"


def report(found: Found) -> str:
    return "\n".join(
        [
            "An ingest task fetches, decodes and writes each topic of the benchmark's orders, in turns in one process,"
            " 20 columns and 5 of metadata. CPU microseconds a record. A ratio is that of two cases of one round. The"
            f" {SCHEMA_IDS} schemas have the same fields in the same order: they differ in a comment. In another order:"
            " Protobuf fields are declared in one order and written in another, neither that of their numbers.",
            "",
            "| values | records | least | median |",
            "|---|---|---|---|",
            *(_row(case, micros) for case, micros in found.items()),
            "",
            "| measure | target | found | met |",
            "|---|---|---|---|",
            *map(str, targets(found)),
        ]
    )


def _row(case: Case, micros: Sequence[float]) -> str:
    return f"| {case.format.name} | {WORDS[case.what]} | {min(micros):.2f} | {statistics.median(micros):.2f} |"
