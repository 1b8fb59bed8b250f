"""Output topics of a transformation: its table's epochs, each once; and transformations that follow each other."""

from __future__ import annotations

import io
import json
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import fastavro
import pytest

from frazil.adapters.iceberg.rebuild_lake import RebuildLake
from frazil.adapters.iceberg.snapshot_rows import SnapshotRows
from frazil.materialize.scheduling.schedule import Stopping
from frazil.model.errors import FencedError, FrazilError, OutputHaltedError, SpecError, TransactionTimedOutError
from frazil.model.outputs import OutputSpec
from frazil.model.settings import CatalogSettings
from frazil.model.transforms import Identified, TransformSpec
from frazil.monitoring.prometheus import exposition
from frazil.monitoring.transform_metrics import transform_metrics
from frazil.outputs.ports import OutputClients
from frazil.transforms.checks import problems
from frazil.transforms.rebuild import Rebuild
from frazil.transforms.run import Transformation
from frazil.transforms.schedule import Report, run_once
from frazil.transforms.send import TransformSending, halted_by_rebuild
from frazil.transforms.standing import transform_standing
from tests.fakes.disturbed_commits import ACTS, DiedError, disturbed
from tests.fakes.output_topics_in_memory import MOMENTS, OutputTopicsInMemory, SchemasInMemory
from tests.fakes.watched_lake import WatchedLake
from tests.sampling import combined, sampled
from tests.table.transformed_orders import Orders, by_id, spec_of

TOPIC = "made.out"
STATELESS = spec_of(outputs=(OutputSpec(TOPIC, TOPIC, key=("symbol",), columns=("id",)),))
GROUPS = spec_of("SELECT symbol, count(*) AS orders FROM orders GROUP BY symbol", outputs=(OutputSpec(TOPIC, TOPIC),))


@dataclass
class Sent:
    """A lake of orders, and a cluster of output topics."""

    orders: Orders
    topics: OutputTopicsInMemory = field(default_factory=lambda: OutputTopicsInMemory({TOPIC: 3}))
    schemas: SchemasInMemory = field(default_factory=SchemasInMemory)

    def transformation(self, spec: TransformSpec = STATELESS) -> Transformation:
        return self.sending(self.orders.transformation(spec))

    def sending(self, made: Transformation) -> Transformation:
        clients = OutputClients(self.topics, self.schemas, SnapshotRows())
        made.sending = TransformSending(made.spec, lambda: clients, lambda: datetime(2026, 1, 1, tzinfo=UTC))
        return made

    def run(self, spec: TransformSpec = STATELESS) -> Report:
        (report,) = run_once([self.transformation(spec)], Stopping(), lambda _: None)
        return report

    @property
    def records(self) -> list[tuple[Any, Any]]:
        return self.records_of(TOPIC)

    def records_of(self, topic: str) -> list[tuple[Any, Any]]:
        found = self.topics.committed.get(topic, [])
        return [(self.decoded(key), self.decoded(value)) for key, value in found]

    def decoded(self, payload: bytes | None) -> Any:
        if payload is None or payload[:1] != b"\0":
            return payload
        text = self.schemas.schema(int.from_bytes(payload[1:5], "big"))
        return fastavro.schemaless_reader(io.BytesIO(payload[5:]), fastavro.parse_schema(json.loads(text)), None)


@pytest.fixture
def sent(tmp_path: Path) -> Sent:
    return Sent(Orders(tmp_path))


def test_each_row_of_a_transformation_is_sent_once(sent: Sent) -> None:
    sent.orders.add(1, 2)
    sent.run()
    sent.orders.add(4, 7)
    sent.run()
    assert sent.run().batches == 0

    assert sent.records == [(b"S1", {"id": 1}), (b"S2", {"id": 2}), (b"S4", {"id": 4})]


def test_the_newest_row_of_each_group_is_sent_with_its_columns_as_the_key(sent: Sent) -> None:
    sent.orders.add(1, 6, 11)
    sent.run(GROUPS)
    sent.orders.add(2, 16, 22)
    sent.run(GROUPS)

    newest = {key["symbol"]: value["orders"] for key, value in sent.records}
    assert len(sent.records) == 5
    assert newest == {"s1": 3, "s2": 1, None: 2}
    assert [text for subject, text in sent.schemas.texts if subject == f"{TOPIC}-key"]


def test_a_key_that_is_not_the_group_is_refused_before_anything_is_written(sent: Sent) -> None:
    spec = spec_of(GROUPS.sql, outputs=(OutputSpec(TOPIC, TOPIC, key=("orders",)),))
    sent.orders.add(1)

    failure = sent.run(spec).failure

    assert isinstance(failure, SpecError)
    assert "the query groups by symbol, and the output made.out has the key orders" in failure.what
    assert sent.orders.lake.load("lake.made") is None


def test_an_output_that_is_new_to_a_table_sends_the_next_epochs(sent: Sent) -> None:
    sent.orders.add(1)
    sent.run(spec_of())
    sent.run(STATELESS)
    sent.orders.add(2)
    sent.run(STATELESS)

    assert sent.records == [(b"S2", {"id": 2})]


@pytest.mark.parametrize("moment", sampled(MOMENTS, lambda moment: moment in ("opened", "produced", "committed")))
def test_a_process_that_dies_while_it_sends_loses_and_doubles_nothing(sent: Sent, moment: str) -> None:
    for number in (1, 2, 4, 6):
        sent.orders.add(number)
        sent.topics.reach = dying_at(moment)
        with suppress(DiedError):
            sent.run()
        sent.topics.reach = lambda _: None
    sent.run()

    assert sorted(value["id"] for _, value in sent.records) == [1, 2, 4, 6]


def dying_at(wanted: str) -> Any:
    def reach(moment: str) -> None:
        if moment == wanted:
            raise DiedError

    return reach


@pytest.mark.parametrize(("act", "number"), combined(ACTS, sampled(range(1, 13), lambda n: n in (5, 9))))
def test_records_are_there_once_whatever_happens_to_a_commit(sent: Sent, act: str, number: int) -> None:
    for first in (1, 4):
        sent.orders.add(first, first + 1)
        kept = sent.orders.lake
        sent.orders.lake = WatchedLake(CatalogSettings("jdbc", str(sent.orders.folder)), around=disturbed(act, number))
        with suppress(DiedError, FrazilError):
            sent.run(GROUPS)
        sent.orders.lake = kept
    sent.orders.add(9)
    report = sent.run(GROUPS)

    assert (report.failure, report.unsent) == (None, None)
    newest = {key["symbol"]: value["orders"] for key, value in sent.records}
    assert newest == {row["symbol"]: row["orders"] for row in sent.orders.rows_of()}
    assert len(sent.records) == len({(key["symbol"], value["orders"]) for key, value in sent.records})


def test_batches_continue_while_an_output_fails(sent: Sent) -> None:
    sent.orders.add(1)
    sent.run()
    sent.topics.partitions_of.pop(TOPIC)
    sent.orders.add(2)

    report = sent.run()

    assert (report.batches, report.failure) == (1, None)
    assert "has no topic made.out" in str(report.unsent)
    standing = transform_standing(sent.orders.lake, STATELESS)
    assert standing.to_json(datetime.now(UTC))["outputs"][0]["unsent"] == 1
    shown = exposition(transform_metrics([standing], now=datetime.now(UTC)))
    assert f'frazil_transform_unsent_rows{{transform="made",table="lake.made",output="{TOPIC}"}} 1\n' in shown
    sent.topics.partitions_of[TOPIC] = 3
    sent.run()
    assert len(sent.records) == 2


def test_transactions_that_time_out_stop_no_process(sent: Sent) -> None:
    times = iter((True, True, False))

    def reach(moment: str) -> None:
        if moment == "commit" and next(times, False):
            raise TransactionTimedOutError("the transaction took longer than 600 s", hint="its records are sent again")

    sent.topics.reach = reach
    sent.orders.add(1)

    reports = [sent.run() for _ in range(2)]

    assert [(each.failure, type(each.unsent)) for each in reports] == [
        (None, TransactionTimedOutError),
        (None, type(None)),
    ]
    assert [value["id"] for _, value in sent.records] == [1]


def test_a_second_process_fences_the_first(sent: Sent) -> None:
    first, second = sent.transformation(), sent.transformation()
    for made in (first, second):
        sent.orders.add(1)
        made.batch()
        assert made.send() is None
    sent.orders.add(2)
    first.batch()

    (report,) = run_once([first], Stopping(), lambda _: None)

    assert isinstance(report.failure, FencedError)


def test_an_output_halts_after_a_rebuild(sent: Sent) -> None:
    sent.orders.add(1)
    made = sent.transformation()
    made.batch()
    assert made.send() is None
    done = Rebuild(made, RebuildLake(sent.orders.lake, ["lake.made"])).perform()

    assert isinstance(sent.transformation().send(), OutputHaltedError)
    (said,) = halted_by_rebuild(sent.orders.view("lake.made"), STATELESS, done.state.rows)
    assert "give the output another `name` in transforms/made.yaml" in said


def test_an_output_with_another_name_goes_on_after_a_rebuild(sent: Sent) -> None:
    sent.orders.add(1)
    sent.run()
    Rebuild(sent.transformation(), RebuildLake(sent.orders.lake, ["lake.made"])).perform()
    named = replace(STATELESS, outputs=(replace(STATELESS.outputs[0], name="made.again"),))
    sent.orders.add(2)

    assert sent.run(named).unsent is None
    assert [value["id"] for _, value in sent.records] == [1, 2]
    assert [*halted_by_rebuild(sent.orders.view("lake.made"), named, Identified())] == []


def test_a_check_finds_what_would_keep_records_from_being_sent(sent: Sent) -> None:
    sent.orders.add(1)
    assert list(problems(sent.transformation())) == []
    sent.topics.partitions_of.pop(TOPIC)
    sent.schemas.refused.add(f"{TOPIC}-value")

    found = [str(problem) for problem in problems(sent.transformation())]

    assert ["has no topic made.out" in found[0], "incompatible" in found[1]] == [True, True]


DOUBLED = spec_of("SELECT id, next * 2 AS twice FROM made", name="doubled", source="lake.made")


def test_a_transformation_follows_the_table_of_another_one(sent: Sent) -> None:
    chain = [sent.orders.transformation(spec) for spec in (spec_of(), DOUBLED)]
    for numbers in ((1, 2), (3,), (4, 5)):
        sent.orders.add(*numbers)
        run_once(chain, Stopping(), lambda _: None)

    assert by_id(sent.orders.rows_of("lake.doubled")) == [
        {"id": row["id"], "twice": row["next"] * 2} for row in by_id(sent.orders.rows_of())
    ]
    assert [str(transform_standing(sent.orders.lake, each.spec)) for each in chain] == [
        "transform made has read lake.orders up to epoch 3, and lacks none",
        "transform doubled has read lake.made up to epoch 3, and lacks none",
    ]


def test_a_standing_says_what_is_unread_and_why_it_is_halted(sent: Sent) -> None:
    standing = transform_standing(sent.orders.lake, spec_of())
    assert list(standing.lines()) == ["lake.made: transform made has not read lake.orders yet"]
    sent.orders.add(1)
    sent.orders.transformation(spec_of()).batch()
    sent.orders.add(2)
    sent.orders.add(4)

    assert "lacks 2 epochs" in str(transform_standing(sent.orders.lake, spec_of()))
    assert "made is halted: " in str(transform_standing(sent.orders.lake, spec_of("SELECT id FROM orders")))


CHANGES = {"source_changes": True, "source_identity": ("id",)}


def test_a_group_that_loses_its_last_row_becomes_a_tombstone(sent: Sent) -> None:
    spec = spec_of(GROUPS.sql, outputs=GROUPS.outputs, **CHANGES)
    sent.orders.change(1, 6, 2, 11)
    sent.run(spec)
    before = len(sent.records)
    sent.orders.change(3, without=(1, 2, 11))
    sent.run(spec)

    later = [(key["symbol"], None if value is None else value["orders"]) for key, value in sent.records[before:]]
    assert before == 3
    assert sorted(later, key=repr) == sorted([("s1", 1), ("s2", None), ("s3", 1), (None, None)], key=repr)


def test_rows_are_sent_by_what_names_them_in_the_followed_table(sent: Sent) -> None:
    spec = spec_of("SELECT id, n FROM orders", outputs=(OutputSpec(TOPIC, TOPIC),), **CHANGES)
    sent.orders.change(1, 2)
    sent.run(spec)
    sent.orders.change(1, without=(2,))
    sent.run(spec)

    assert [(key["id"], None if value is None else value["n"]) for key, value in sent.records] == [
        (1, 0),
        (2, 0),
        (1, 1),
        (2, None),
    ]
