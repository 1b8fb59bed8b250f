"""A process that dies between the commits of a group's tables: with Spark, as its commands are typed."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from breadth import Place, catch_up, encode, record_of

from frazil.adapters.iceberg.lake import IcebergLake
from frazil.cli.app import run
from frazil.model.settings import CatalogSettings
from tests.fakes.watched_lake import Commit, WatchedLake

SCHEMAS = {
    "shop.Order": record_of(("n", "long"), name="shop.Order"),
    "shop.Refund": record_of(("n", "long"), ("why", "string"), name="shop.Refund"),
    "shop.Other": record_of(("n", "long"), name="shop.Other"),
}
ROUTES = """
topic: {topic}
table: events
subject: topic-record
bad_record_limit: off
routes:
  - {{table: orders, schema: shop.Order}}
  - {{table: refunds, schema: shop.Refund}}
  - {{table: urgent, header: {{priority: high}}}}
"""


class KilledError(BaseException):
    """The process ends here."""


def produce(place: Place, topic: str) -> None:
    """To each partition two orders, a refund, one record of another kind, and one that is urgent."""
    ids = {name: place.register(f"{topic}-{name}", schema) for name, schema in SCHEMAS.items()}

    def encoded(name: str, **value: object) -> bytes:
        (found,) = encode(SCHEMAS[name], ids[name], value)
        return found

    for partition in range(2):
        orders = [encoded("shop.Order", n=1), encoded("shop.Order", n=2)]
        refund, other = encoded("shop.Refund", n=3, why="late"), encoded("shop.Other", n=4)
        place.send(topic, *orders, refund, other, partition=partition)
        place.send(topic, other, partition=partition, headers=[("priority", b"high")])


def offsets(place: Place, table: str, column: str = "kafka_offset") -> list[int]:
    view = IcebergLake(catalog(place)).load(f"{place.name}.{table}")
    assert view is not None
    return sorted(view.current.scan(selected_fields=(column,)).to_arrow()[column].to_pylist())


def catalog(place: Place) -> CatalogSettings:
    return CatalogSettings("jdbc", str(place.folder / "warehouse"))


def killed_after_the_ledger(place: Place, spec: str) -> None:
    """The process dies between the commits of the first table and of the second."""

    def around(_: str, commit: Commit) -> object:
        published.append(lake.doing)
        if published.count("publish") == 2:
            raise KilledError
        return commit()

    published: list[str] = []
    lake = WatchedLake(catalog(place), around=around)
    with pytest.raises(KilledError):
        place.run(spec, lake=lake).batch()


def test_one_spec_fills_several_tables_and_a_killed_batch_is_completed(
    place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    topic = place.topic(partitions=2)
    produce(place, topic)
    spec = ROUTES.format(topic=topic)
    place.settings(spec)
    config = ["--config", str(place.folder / "frazil.yaml")]
    command = [sys.executable, "-m", "frazil", "materialize", "events", "--once", *config]

    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=os.environ, check=False)

    assert done.returncode == 0, done.stderr
    assert {f"{place.name}.{name} epoch" in done.stdout for name in ("orders", "refunds", "urgent")} == {True}
    produce(place, topic)
    killed_after_the_ledger(place, spec)
    assert run(["verify", "events", *config]) == 0
    capsys.readouterr()

    catch_up(place.run(spec))

    assert offsets(place, "orders") == sorted(2 * [0, 1, 5, 6])
    assert offsets(place, "refunds") == sorted(2 * [2, 7])
    assert offsets(place, "urgent") == sorted(2 * [4, 9])
    assert offsets(place, "events__dead_letters", "offset") == sorted(2 * [3, 8])
    assert run(["verify", "refunds", "--against-kafka", *config]) == 0
    assert run(["status", *config]) == 0
    assert run(["dead-letters", "list", "orders", *config]) == 0
    assert "no_route" in capsys.readouterr().out
