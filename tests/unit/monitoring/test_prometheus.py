"""Metrics of tables in Prometheus's text format."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path

import pytest

from frazil.key_status import KeyStatus
from frazil.maintain.figures import Files, Throughput
from frazil.materialize.pause.pausing import Pause
from frazil.model.progress import Counts
from frazil.monitoring.process_metrics import ProcessMetrics
from frazil.monitoring.prometheus import Metric, Sample, exposition
from frazil.monitoring.table_metrics import key_metrics, table_metrics
from frazil.monitoring.transform_metrics import transform_metrics
from frazil.status import LastBatch, PartitionLag, TableStatus
from frazil.transforms.standing import TransformStanding
from tests.table.transformed_orders import spec_of

AT = datetime(2026, 1, 31, 12, tzinfo=UTC)
HOSTILE = 'lake.a"}\n</script>\\{'

ORDERS = TableStatus(
    "lake.orders",
    epoch=3,
    rows=95,
    counts=Counts(read=100, rows=95, dead_letters=2, skipped=3),
    skipped_by_reason={"tombstone": 3},
    partitions=(PartitionLag("orders", 0, 60, 70), PartitionLag("orders", 1, 40, 40)),
    complete_through=AT,
    age_seconds=90.5,
    last_batch=LastBatch(AT, "b", Counts(read=50), 1.25, 7),
    throughput=Throughput(720, 3_600.0),
    files=Files(data=4, deletes=1, bytes=4096, deleted_rows=2, small=3, examined=4, small_bytes=512),
    snapshots=5,
)

LINE = re.compile(
    r'frazil_[a-z_]+(?:\{[a-z]+="(?:[^"\\\n]|\\["\\n])*"(?:,[a-z]+="(?:[^"\\\n]|\\["\\n])*")*\})? [-+.0-9eInfNa]+'
)
"""A sample as the format's grammar has it."""


def samples(text: str) -> list[str]:
    return [line for line in text.splitlines() if not line.startswith("#")]


def test_every_figure_of_a_table_is_a_metric_in_its_base_unit() -> None:
    assert samples(exposition(table_metrics([ORDERS]))) == [
        'frazil_table_state{table="lake.orders",state="in trouble"} 0',
        'frazil_table_state{table="lake.orders",state="paused"} 0',
        'frazil_table_state{table="lake.orders",state="no table"} 0',
        'frazil_table_state{table="lake.orders",state="lag unknown"} 0',
        'frazil_table_state{table="lake.orders",state="behind"} 1',
        'frazil_table_state{table="lake.orders",state="caught up"} 0',
        "frazil_kafka_up 1",
        'frazil_lag_records{table="lake.orders",topic="orders",partition="0"} 10',
        'frazil_lag_records{table="lake.orders",topic="orders",partition="1"} 0',
        'frazil_lag_seconds{table="lake.orders"} 90.5',
        'frazil_freshness_seconds{table="lake.orders"} 90.5',
        'frazil_complete_through_timestamp_seconds{table="lake.orders"} 1769860800',
        'frazil_records_total{table="lake.orders",outcome="row"} 95',
        'frazil_records_total{table="lake.orders",outcome="delete"} 0',
        'frazil_records_total{table="lake.orders",outcome="duplicate"} 0',
        'frazil_records_total{table="lake.orders",outcome="dead_letter"} 2',
        'frazil_records_total{table="lake.orders",outcome="skipped"} 3',
        'frazil_skipped_records_total{table="lake.orders",reason="tombstone"} 3',
        'frazil_batches_total{table="lake.orders"} 3',
        'frazil_rows{table="lake.orders"} 95',
        'frazil_throughput_rows_per_second{table="lake.orders"} 0.2',
        'frazil_data_files{table="lake.orders"} 4',
        'frazil_delete_files{table="lake.orders"} 1',
        'frazil_deleted_rows{table="lake.orders"} 2',
        'frazil_files_bytes{table="lake.orders"} 4096',
        'frazil_small_files{table="lake.orders"} 3',
        'frazil_examined_files{table="lake.orders"} 4',
        'frazil_snapshots{table="lake.orders"} 5',
        'frazil_last_batch_timestamp_seconds{table="lake.orders"} 1769860800',
        'frazil_last_batch_duration_seconds{table="lake.orders"} 1.25',
        'frazil_last_batch_records{table="lake.orders"} 50',
    ]


def test_what_is_unknown_has_no_sample() -> None:
    unknown = TableStatus("lake.new", problem="not created yet: run", kafka_problem="no broker answers")

    found = samples(exposition([*table_metrics([unknown]), *key_metrics([KeyStatus("k", unknown="not allowed")])]))

    assert [line for line in found if "table_state" not in line] == ["frazil_kafka_up 0"]
    assert 'frazil_table_state{table="lake.new",state="no table"} 1' in found


@pytest.mark.parametrize("problem", [{"pause": Pause("ann", "now", "a test")}, {"problem": "the topic is gone"}, {}])
def test_exactly_one_state_of_a_table_is_1(problem: dict[str, object]) -> None:
    status = TableStatus("lake.orders", epoch=1, **problem)  # type: ignore[arg-type]

    states = [line for line in samples(exposition(table_metrics([status]))) if "table_state" in line]

    assert [line[-1] for line in states].count("1") == 1
    assert f'state="{status.state}"}} 1' in "".join(states)


def test_hostile_names_are_escaped_so_that_a_line_stays_one_sample() -> None:
    status = TableStatus(HOSTILE, epoch=1, skipped_by_reason={HOSTILE: 1}, partitions=(PartitionLag(HOSTILE, 0, 0, 1),))
    text = exposition([*table_metrics([status]), *key_metrics([KeyStatus(HOSTILE, age_seconds=2.0)])])

    assert all(LINE.fullmatch(line) for line in samples(text))
    assert r'frazil_key_age_seconds{secret="lake.a\"}\n</script>\\{"} 2' in text


def test_each_metric_has_one_help_and_one_type_before_its_samples() -> None:
    other = TableStatus("lake.other", epoch=1, rows=1)
    lines = exposition(table_metrics([ORDERS, other])).splitlines()
    named = [line.split()[2] for line in lines if line.startswith("# TYPE")]

    assert len(named) == len(set(named))
    for name in named:
        first = next(n for n, line in enumerate(lines) if re.match(rf"{name}[ {{]", line))
        assert lines[first - 2].startswith(f"# HELP {name} ")
        assert lines[first - 1] in (f"# TYPE {name} gauge", f"# TYPE {name} counter")
        assert lines[first - 1].endswith(" counter") is name.endswith("_total")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1e18, "1000000000000000000"),
        (float("inf"), "+Inf"),
        (float("-inf"), "-Inf"),
        (float("nan"), "NaN"),
        (-2.5, "-2.5"),
    ],
)
def test_numbers_are_written_as_the_format_says(value: float, text: str) -> None:
    metric = Metric("frazil_x", "gauge", "One\nline \\.", (Sample({}, value),))

    assert exposition([metric]) == f"# HELP frazil_x One\\nline \\\\.\n# TYPE frazil_x gauge\nfrazil_x {text}\n"


def test_the_page_of_the_docs_names_every_metric() -> None:
    page = (Path(__file__).parents[3] / "docs/status.md").read_text()
    process = ProcessMetrics(version="1", started=AT).metrics()
    transforms = transform_metrics([TransformStanding(spec_of())], now=AT)
    named = {metric.name for metric in (*table_metrics([ORDERS]), *transforms, *key_metrics([]), *process)}

    assert named == set(re.findall(r"`(frazil_[a-z_]+)`", page))
