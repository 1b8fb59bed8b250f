"""A page of four made-up tables: one in trouble, one paused, one late, and one that is caught up."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta

from frazil.key_status import KeyStatus
from frazil.maintain.figures import Files, Throughput
from frazil.materialize.pause.pausing import Pause
from frazil.model.progress import Counts
from frazil.model.transforms import TransformSpec
from frazil.monitoring.history import Batch, Rejects, TableHistory
from frazil.monitoring.page import status_page
from frazil.status import LastBatch, PartitionLag, TableStatus
from frazil.transforms.standing import PublishedBatch, TransformStanding

NOW = datetime(2026, 1, 31, 12, 10, tzinfo=UTC)
HOSTILE = "lake.<script>alert('frazil')</script>\"'&amp;<img src=x onerror=alert(1)>"


def made(table: str, *, rows: int, lag: int, age: float, **more: object) -> TableStatus:
    return TableStatus(
        table,
        epoch=1_204,
        rows=rows,
        counts=Counts(read=rows + 212, rows=rows, dead_letters=200, skipped=12),
        partitions=(PartitionLag("orders", 0, 1_000, 1_000 + lag),),
        complete_through=NOW - timedelta(seconds=age),
        age_seconds=age,
        last_batch=LastBatch(NOW - timedelta(seconds=age), "b", Counts(read=52_310), 4.2, 7),
        throughput=Throughput(rows // 8, 3_600.0),
        files=Files(
            data=412, deletes=9, bytes=18_000_000_000, deleted_rows=812, small=160, examined=412, small_bytes=64_000_000
        ),
        snapshots=1_440,
        **more,  # type: ignore[arg-type]
    )


def history(*, slow: bool = False, rejected: bool = True) -> TableHistory:
    """Six hours of batches, with a wave, and a stop of an hour if the table is slow."""
    batches, rejects = [], []
    for minute in range(0, 360):
        at = NOW - timedelta(minutes=360 - minute)
        if slow and 200 < minute < 260:
            continue
        late = (minute - 200) * 60.0 if slow and 260 <= minute < 300 else 0.0
        batches.append(Batch(at, int(40_000 + 30_000 * math.sin(minute / 40)), 35 + 20 * math.sin(minute / 7) + late))
        if rejected and minute % 90 == 10:
            rejects.append(Rejects(at, 3 + minute // 30))
    sizes = tuple(int(2_000_000 * 1.012**n) for n in range(412))
    return TableHistory(tuple(batches), tuple(rejects), sizes, 64_000_000, batches[0].at)


TABLES = (
    made("lake.stock_trades", rows=81_234_567, lag=0, age=41),
    made("lake.orders", rows=5_120_000, lag=48_211, age=5_400),
    made(
        "lake.refunds",
        rows=91_200,
        lag=12,
        age=9_000,
        pause=Pause("ann", "2026-01-31T09:30:00Z", "a schema is checked first"),
    ),
    made(
        "lake.customers",
        rows=700_123,
        lag=7,
        age=800,
        problem="the topic customers was re-created; run `frazil rebuild customers`",
    ),
)
HISTORIES = {
    "lake.stock_trades": history(),
    "lake.orders": history(slow=True),
    "lake.refunds": TableHistory(),
    "lake.customers": history(rejected=False),
}
KEYS = (
    KeyStatus("frazil/dev/kafka", age_seconds=12 * 86_400.0),
    KeyStatus(
        "frazil/dev/loader",
        age_seconds=41 * 86_400.0,
        warnings=("its rotation is overdue: the schedule is rate(30 days)",),
    ),
)


TRANSFORMS = (
    TransformStanding(
        TransformSpec("transforms/totals.yaml", "totals", "lake", "totals", "lake.stock_trades"),
        epoch=1_203,
        unread=1,
        unread_rows=70_000,
        behind_since=NOW - timedelta(seconds=41),
        rows=8_123,
        last_batch=PublishedBatch(NOW - timedelta(seconds=101), "b", 12, 8),
    ),
    TransformStanding(
        TransformSpec("transforms/by_city.yaml", "by_city", "lake", "orders_by_city", "lake.orders"),
        rows=12,
        problem="lake.orders_by_city: others changed the table of the transformation by_city (append)",
    ),
)


def sample() -> str:
    return status_page(TABLES, HISTORIES, KEYS, now=NOW, title="Tables of lake", transforms=TRANSFORMS)


def hostile() -> str:
    """Return a page in which each text that comes from a topic, a spec or a person is an attack."""
    table = made(
        HOSTILE,
        rows=10,
        lag=1,
        age=4_000,
        problem=f"the topic {HOSTILE} was re-created; run `{HOSTILE}`",
        kafka_problem=HOSTILE,
        skipped_by_reason={HOSTILE: 3},
        removed_topics=(HOSTILE,),
    )
    keys = [KeyStatus(HOSTILE, age_seconds=1.0, warnings=(HOSTILE,))]
    transforms = [TransformStanding(TransformSpec("t.yaml", HOSTILE, "lake", HOSTILE, HOSTILE), problem=HOSTILE)]
    return status_page([table], {HOSTILE: history()}, keys, now=NOW, title=HOSTILE, transforms=transforms)
