"""`frazil cost` assumes how many requests a batch makes to S3 and Glue: here, the double of AWS counts them."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from frazil.local.supervisor import LocalServices
from frazil.model.plan import NothingToDo
from frazil.model.receipt import Receipt
from frazil.monitoring.cost.requests import Requests, requests_of
from tests.faults.world import World, glue_catalog, new_world, plain_producer
from tests.own_processes import SERVICES

READS = {"HeadObject", "GetObject"}


@pytest.fixture(scope="module")
def world(services: LocalServices) -> World:
    return new_world(services, glue_catalog(services), partitions=1)


def counted(world: World, lines: list[str]) -> Requests:
    """Return the requests about this world's tables: other tests use the same services."""
    ours = [call for call in map(json.loads, lines) if _is_about(world, call)]
    s3 = [call["operation"] for call in ours if call["service"] == "s3"]
    reads = sum(operation in READS for operation in s3)
    return Requests(writes=len(s3) - reads, reads=reads, glue=sum(call["service"] == "glue" for call in ours))


def _is_about(world: World, call: dict[str, object]) -> bool:
    bucket = world.setting.catalog.warehouse.removeprefix("s3://").partition("/")[0]
    return any(name in str(call["resource"]) for name in (bucket, world.spec.database))


def calls() -> Iterator[str]:
    record = Path(os.environ[SERVICES]) / "aws" / "calls.jsonl"
    yield from record.read_text(encoding="utf-8").splitlines()


def test_batch_makes_the_requests_that_its_cost_is_computed_from(world: World, services: LocalServices) -> None:
    run = world.catch_up()
    for dead_letters in (0, 1):
        producer = plain_producer(services)
        for bad in (False, bool(dead_letters)):
            world.send(producer, 0, bad=bad)
        producer.flush()
        before = len(list(calls()))

        receipt: Receipt = run.batch().receipt  # type: ignore[union-attr]

        expected = requests_of(
            batches=1,
            with_dead_letters=dead_letters,
            files=receipt.files + dead_letters,
            written_bytes=receipt.file_bytes,
            empty_triggers=0,
        )
        found = counted(world, list(calls())[before:])
        assert (found.writes, found.reads) == (expected.writes, expected.reads)
        assert found.glue == pytest.approx(expected.glue, abs=1), "what the batch before left decides about one"


def test_trigger_that_finds_nothing_asks_the_catalog_only(world: World) -> None:
    run = world.catch_up()
    before = len(list(calls()))

    assert isinstance(run.batch(), NothingToDo)

    expected = requests_of(batches=0, with_dead_letters=0, files=0, written_bytes=0, empty_triggers=1)
    assert counted(world, list(calls())[before:]) == expected
