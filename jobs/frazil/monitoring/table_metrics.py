"""The metrics of tables and keys, from their status. docs/status.md lists them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime

from frazil.key_status import KeyStatus
from frazil.maintain.figures import Files
from frazil.monitoring.prometheus import Metric, Sample
from frazil.status import STATES, TableStatus

Figure = float | datetime | None


def table_metrics(found: Sequence[TableStatus]) -> Iterator[Metric]:
    """Yield the metrics of tables. A figure that is not known has no sample."""
    yield Metric("frazil_table_state", "gauge", "1 for the state that the table is in, else 0.", tuple(_states(found)))
    yield from _reading(found)
    yield from _counts(found)
    yield from _storage(found)
    yield from _last_batches(found)


def key_metrics(found: Sequence[KeyStatus]) -> Iterator[Metric]:
    """Yield the metrics of the secrets that the configuration refers to."""
    ages = ((each.secret, each.age_seconds) for each in found)
    yield Metric(
        "frazil_key_age_seconds",
        "gauge",
        "Age of the secret's current value.",
        tuple(Sample({"secret": secret}, age) for secret, age in ages if age is not None),
    )
    warnings = (Sample({"secret": each.secret}, len(each.warnings)) for each in found if each.unknown is None)
    yield Metric("frazil_key_warnings", "gauge", "Problems of the secret's rotation.", tuple(warnings))


def _states(found: Sequence[TableStatus]) -> Iterator[Sample]:
    for each in found:
        for state in STATES:
            yield Sample({"table": each.table, "state": state}, each.state == state)


def _reading(found: Sequence[TableStatus]) -> Iterator[Metric]:
    if found:
        up = all(each.kafka_problem is None for each in found)
        yield Metric("frazil_kafka_up", "gauge", "1 if Kafka answered when the lag was asked for.", (Sample({}, up),))
    yield Metric(
        "frazil_lag_records",
        "gauge",
        "Offsets of the partition that are left to read.",
        tuple(
            Sample({"table": each.table, "topic": part.topic, "partition": str(part.partition)}, part.lag)
            for each in found
            for part in each.partitions
            if part.lag is not None
        ),
    )
    yield _gauge(
        found,
        "lag_seconds",
        "Time since the oldest unread record may have arrived; 0 if all are read.",
        lambda each: each.lag_seconds,
    )
    yield _gauge(
        found,
        "freshness_seconds",
        "Time since the moment up to which the table has all records.",
        lambda each: each.age_seconds,
    )
    yield _gauge(
        found,
        "complete_through_timestamp_seconds",
        "Moment up to which the table has all records, in seconds since 1970.",
        lambda each: each.complete_through,
    )


def _counts(found: Sequence[TableStatus]) -> Iterator[Metric]:
    made = [each for each in found if each.epoch is not None]
    yield _by_label(
        made,
        "records_total",
        "Records that were read, by what became of them.",
        "outcome",
        lambda each: {
            "row": each.accounted.rows,
            "delete": each.accounted.deletes,
            "duplicate": each.accounted.duplicates,
            "dead_letter": each.accounted.dead_letters,
            "skipped": each.accounted.skipped,
        },
    )
    yield _by_label(
        made,
        "skipped_records_total",
        "Records that were skipped, by reason.",
        "reason",
        lambda each: each.skipped_by_reason,
    )
    batches = tuple(Sample({"table": each.table}, each.epoch or 0) for each in made)
    yield Metric("frazil_batches_total", "counter", "Batches that were published.", batches)


def _storage(found: Sequence[TableStatus]) -> Iterator[Metric]:
    yield _gauge(found, "rows", "Rows that a reader sees.", lambda each: each.rows)
    yield _gauge(
        found,
        "throughput_rows_per_second",
        "Rows that batches added, the mean of the last hour.",
        lambda each: None if each.throughput is None else each.throughput.rows_per_second,
    )
    for name, text, figure in _OF_FILES:
        yield _gauge(found, name, text, _of_files(figure))
    yield _gauge(found, "snapshots", "Snapshots that are retained.", lambda each: each.snapshots)


_OF_FILES: Sequence[tuple[str, str, Callable[[Files], int]]] = (
    ("data_files", "Data files.", lambda files: files.data),
    ("delete_files", "Files that mark rows as deleted.", lambda files: files.deletes),
    ("deleted_rows", "Rows in data files that are marked as deleted.", lambda files: files.deleted_rows),
    ("files_bytes", "Size of data files and files of deletes.", lambda files: files.bytes),
    ("small_files", "Small files among the newest data files.", lambda files: files.small),
    ("examined_files", "Newest data files whose sizes were looked at.", lambda files: files.examined),
)


def _of_files(figure: Callable[[Files], int]) -> Callable[[TableStatus], Figure]:
    return lambda each: None if each.files is None else figure(each.files)


def _last_batches(found: Sequence[TableStatus]) -> Iterator[Metric]:
    for name, text, figure in (
        ("timestamp_seconds", "When the last batch was committed, in seconds since 1970.", _committed_at),
        ("duration_seconds", "Duration of the last batch.", _duration),
        ("records", "Records that the last batch read.", _read),
    ):
        yield _gauge(found, f"last_batch_{name}", text, figure)


def _committed_at(each: TableStatus) -> datetime | None:
    return None if each.last_batch is None else each.last_batch.at


def _duration(each: TableStatus) -> float | None:
    return None if each.last_batch is None else each.last_batch.seconds


def _read(each: TableStatus) -> int | None:
    return None if each.last_batch is None else each.last_batch.counts.read


def _gauge(found: Sequence[TableStatus], name: str, text: str, value: Callable[[TableStatus], Figure]) -> Metric:
    known = ((each.table, value(each)) for each in found)
    samples = tuple(Sample({"table": table}, _number(figure)) for table, figure in known if figure is not None)
    return Metric(f"frazil_{name}", "gauge", text, samples)


def _number(figure: float | datetime) -> float:
    return figure.timestamp() if isinstance(figure, datetime) else figure


def _by_label(
    found: Sequence[TableStatus], name: str, text: str, label: str, values: Callable[[TableStatus], Mapping[str, int]]
) -> Metric:
    samples = (
        Sample({"table": each.table, label: key}, value) for each in found for key, value in values(each).items()
    )
    return Metric(f"frazil_{name}", "counter", text, tuple(samples))
