"""A table's state as text in an Iceberg snapshot summary, under `frazil.*`, and back.

The keys and their JSON are a stored format: `FORMAT_VERSION` grows when an older reader could misread them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from datetime import datetime
from typing import Any

from jobs.model.errors import StateLostError
from jobs.model.progress import Counts, ForeignChanges, OffsetSums, PartitionProgress, SourceProgress, TableState
from jobs.model.receipt import Receipt

FORMAT_VERSION = "1"

VERSION = "frazil.format-version"
PIPELINE = "frazil.pipeline"
EPOCH = "frazil.epoch"
WRITER = "frazil.writer"
BATCH_ID = "frazil.batch-id"
COMPLETE_THROUGH = "frazil.complete-through"
SOURCES = "frazil.sources"
SCHEMA_IDS = "frazil.schema-ids"
KEY_SCHEMA_IDS = "frazil.key-schema-ids"
SKIPPED = "frazil.skipped-by-reason"
FOREIGN = "frazil.foreign"
RECEIPT = "frazil.receipt"
ROWS_UUID = "frazil.rows-uuid"
"""In snapshots of dead letters: the uuid of the table of rows that their batch belongs to."""


def state_to_summary(state: TableState) -> dict[str, str]:
    summary = {
        VERSION: FORMAT_VERSION,
        PIPELINE: state.pipeline,
        EPOCH: str(state.epoch),
        WRITER: state.writer,
        BATCH_ID: state.batch_id,
        SOURCES: _compact([_source_to_json(source) for source in state.sources]),
        SCHEMA_IDS: _compact(list(state.schema_ids)),
        KEY_SCHEMA_IDS: _compact(list(state.key_schema_ids)),
        SKIPPED: _compact(dict(state.skipped_by_reason)),
        FOREIGN: _compact(asdict(state.foreign)),
    }
    if state.complete_through is not None:
        summary[COMPLETE_THROUGH] = state.complete_through.isoformat()
    return summary


def receipt_to_summary(receipt: Receipt) -> dict[str, str]:
    return {RECEIPT: _compact(receipt.to_json())}


def receipt_from_summary(summary: Mapping[str, str]) -> dict[str, Any] | None:
    text = summary.get(RECEIPT)
    return None if text is None else dict(json.loads(text))


def carries_state(summary: Mapping[str, str]) -> bool:
    return EPOCH in summary


def state_from_summary(summary: Mapping[str, str]) -> TableState:
    """Raises StateLostError where a newer Frazil wrote the state, or it cannot be read."""
    version = summary.get(VERSION)
    if version != FORMAT_VERSION:
        raise StateLostError(
            f"the table's state has format version {version}, this Frazil reads {FORMAT_VERSION}",
            hint="run the Frazil release that wrote the table, or a newer one",
        )
    try:
        return _parse(summary)
    except (KeyError, ValueError, TypeError) as problem:
        raise StateLostError(
            f"the table's state in the snapshot summary cannot be read: {problem!r}",
            hint="run `frazil status`, then roll the table back to a snapshot that `frazil verify` accepts",
        ) from problem


def _parse(summary: Mapping[str, str]) -> TableState:
    through = summary.get(COMPLETE_THROUGH)
    foreign = json.loads(summary[FOREIGN])
    return TableState(
        pipeline=summary[PIPELINE],
        epoch=int(summary[EPOCH]),
        writer=summary[WRITER],
        batch_id=summary[BATCH_ID],
        sources=tuple(_source_from_json(item) for item in json.loads(summary[SOURCES])),
        complete_through=None if through is None else datetime.fromisoformat(through),
        schema_ids=tuple(json.loads(summary[SCHEMA_IDS])),
        key_schema_ids=tuple(json.loads(summary[KEY_SCHEMA_IDS])),
        skipped_by_reason=json.loads(summary[SKIPPED]),
        foreign=ForeignChanges(**{**foreign, "names": tuple(foreign["names"])}),
    )


def _source_to_json(source: SourceProgress) -> dict[str, Any]:
    return {
        "topic": source.topic,
        "topic_id": source.topic_id,
        "generation": source.generation,
        "partitions": {str(number): _partition_to_json(p) for number, p in sorted(source.partitions.items())},
    }


def _partition_to_json(partition: PartitionProgress) -> dict[str, Any]:
    return {
        "origin": partition.origin,
        "start": partition.start,
        "next": partition.next,
        **asdict(partition.counts),
        "sum": partition.sums.offsets,
        "squares": partition.sums.squares,
        "leader_epoch": partition.leader_epoch,
        "latest_ms": partition.latest_ms,
    }


def _source_from_json(item: Mapping[str, Any]) -> SourceProgress:
    return SourceProgress(
        topic=item["topic"],
        topic_id=item["topic_id"],
        generation=item["generation"],
        partitions={int(number): _partition_from_json(p) for number, p in item["partitions"].items()},
    )


def _partition_from_json(item: Mapping[str, Any]) -> PartitionProgress:
    return PartitionProgress(
        origin=item["origin"],
        start=item["start"],
        next=item["next"],
        counts=Counts(**{name: item[name] for name in Counts.__dataclass_fields__}),
        sums=OffsetSums(item["sum"], item["squares"]),
        leader_epoch=item["leader_epoch"],
        latest_ms=item["latest_ms"],
    )


def _compact(value: object) -> str:
    return json.dumps(value, separators=(",", ":"), sort_keys=True)
