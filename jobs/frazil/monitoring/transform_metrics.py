"""The metrics of transformations, from their standing. docs/status.md lists them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import Literal

from frazil.monitoring.prometheus import Metric, Sample
from frazil.outputs.standing import OutputStanding
from frazil.transforms.standing import STATES, TransformStanding

Value = Callable[[TransformStanding], float | None]
Kind = Literal["gauge", "counter"]


def transform_metrics(found: Sequence[TransformStanding], *, now: datetime) -> Iterator[Metric]:
    """Yield the metrics of transformations. A figure that is not known has no sample."""
    states = (Sample({**_labels(each), "state": state}, each.state == state) for each in found for state in STATES)
    yield Metric("frazil_transform_state", "gauge", "1 for the state of the transformation, else 0.", tuple(states))
    for name, kind, text, value in _figures(now):
        known = ((each, value(each)) for each in found)
        samples = tuple(Sample(_labels(each), figure) for each, figure in known if figure is not None)
        yield Metric(f"frazil_transform_{name}", kind, text, samples)
    yield _unsent(found, "epochs", "Epochs of the table that the output has not sent.", lambda output: output.unsent)
    yield _unsent(found, "rows", "Rows that the unsent epochs added.", lambda output: output.rows)


def _unsent(found: Sequence[TransformStanding], name: str, text: str, value: Callable[[OutputStanding], int]) -> Metric:
    samples = (
        Sample({**_labels(each), "output": output.name}, value(output))
        for each in found
        for output in each.outputs
        if output.problem is None
    )
    return Metric(f"frazil_transform_unsent_{name}", "gauge", text, tuple(samples))


def _figures(now: datetime) -> Iterator[tuple[str, Kind, str, Value]]:
    yield "lag_rows", "gauge", "Rows of the followed table that are left to read.", lambda each: each.unread_rows
    yield (
        "lag_seconds",
        "gauge",
        "Time since the first unread epoch of the followed table was committed; 0 if all are read.",
        lambda each: each.lag_seconds(now),
    )
    yield (
        "freshness_seconds",
        "gauge",
        "Time since the epoch that was read was committed.",
        lambda each: each.age_seconds(now),
    )
    yield "rows", "gauge", "Rows that a reader sees; with a GROUP BY, the groups.", lambda each: each.rows
    yield "batches_total", "counter", "Batches that were published.", lambda each: each.batches
    yield "last_batch_timestamp_seconds", "gauge", "When the last batch was committed, since 1970.", _committed_at
    yield "last_batch_rows", "gauge", "Rows that the last batch wrote.", _written


def _committed_at(each: TransformStanding) -> float | None:
    return None if each.last_batch is None else each.last_batch.at.timestamp()


def _written(each: TransformStanding) -> float | None:
    return None if each.last_batch is None else each.last_batch.rows


def _labels(each: TransformStanding) -> dict[str, str]:
    return {"transform": each.spec.name, "table": each.spec.identifier}
