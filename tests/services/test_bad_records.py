"""Records that cannot become rows: each is accounted for, with its bytes, and a registry that is down loses none."""

from __future__ import annotations

import random
import time
from collections.abc import Collection

import pytest
from breadth import Place, Table, catch_up, encode, framed, receipts, record_of
from raw_headers import send_with_headers

from frazil.adapters.iceberg.lake import IcebergLake
from frazil.adapters.registry import ConfluentRegistry
from frazil.adapters.spark import worker
from frazil.materialize.scheduling import schedule
from frazil.materialize.scheduling.schedule import Stopping, run_once
from frazil.model.errors import BadRecordLimitError, PausedError, RegistryError
from frazil.model.schemas import RegisteredSchema
from frazil.model.settings import RegistrySettings
from tests.reader_paths import on_both_readers

SCHEMA = record_of(("n", "long"), ("s", "string"))
JSON_SCHEMA = '{"$schema": "http://json-schema.org/draft-07/schema#", "type": "object"}'
UNKNOWN_ID = 2_000_000_000


def good(place: Place, topic: str, count: int = 1) -> list[bytes]:
    return encode(SCHEMA, place.register(f"{topic}-value", SCHEMA), *({"n": n, "s": "x"} for n in range(count)))


@on_both_readers
def test_each_kind_of_bad_record_is_a_dead_letter_with_its_reason_and_its_bytes(place: Place) -> None:
    topic = place.topic()
    (value,) = good(place, topic)
    schema_id = int.from_bytes(value[1:5], "big")
    json_id = place.register(f"{place.name}-json", JSON_SCHEMA, kind="JSON")
    sent = {
        "not_framed": b"\x01" + value[1:],
        "truncated": value[:5],
        "trailing_bytes": value + b"\x00",
        "unknown_schema_id": framed(UNKNOWN_ID, b""),
        "wrong_schema_type": framed(json_id, b"{}"),
        "bad_length": framed(schema_id, b"\x02\x03"),
        "bad_utf8": framed(schema_id, b"\x02\x02\xff"),
        "bad_varint": framed(schema_id, b"\xff" * 10 + b"\x02a"),
    }
    headers = [("h", b"\x00\xff"), ("h", None), ("", b"")]
    place.send(topic, *sent.values(), b"", key=b"\x00key", headers=headers, timestamp=1_600_000_000_000)
    place.send(topic, value, key=b"\xff\xfe")

    table = place.materialize(f"topic: {topic}")

    letters = table.dead_letters()
    assert [letter["reason"] for letter in letters] == [*sent, "not_framed", "bad_key"]
    assert [letter["value"] for letter in letters] == [*sent.values(), b"", value]
    assert [letter["key"] for letter in letters] == [b"\x00key"] * 9 + [b"\xff\xfe"]
    assert letters[0]["headers"] == [{"key": k, "value": v} for k, v in headers]
    assert {letter["timestamp"].year for letter in letters[:9]} == {2020}
    assert [letter["offset"] for letter in letters] == list(range(10))
    assert letters[3]["schema_id"] == UNKNOWN_ID
    assert letters[3]["detail"] == f"the registry has no schema with the id {UNKNOWN_ID}"
    assert letters[6]["path"] == "s"
    assert (table.state.total().dead_letters, len(table.rows())) == (10, 0)


@pytest.mark.parametrize("keeps_headers", [False, True])
def test_a_header_that_is_no_text_blocks_no_table(place: Place, keeps_headers: bool) -> None:
    """The record is a row where the table keeps no headers, else a dead letter; the next ones are read either way."""
    topic = place.topic()
    values = good(place, topic, 40)
    fine, bad = [(b"h", b"\xff")], [(b"\xff\xfe", b"1"), (b"h", None)]
    send_with_headers(place.services, topic, *((value, fine) for value in values[:20]))
    send_with_headers(place.services, topic, *((value, bad) for value in values[20:]), (b"x", bad), (b"y", fine))
    keep = "metadata: {keep: [partition, offset, headers]}" if keeps_headers else ""

    table = place.materialize(f"topic: {topic}\nbad_record_limit: off\n{keep}")

    dead = table.dead_letters("value", "headers", "reason", "detail")
    problem = "a header key is not UTF-8: 0xfffe"
    held = [{"key": "h", "value": b"\xff"}]
    unframed = "1 byte, expected a header of 5"
    y = {"value": b"y", "headers": held, "reason": "not_framed", "detail": unframed}
    if keeps_headers:
        refused = {"headers": None, "reason": "unreadable_headers", "detail": problem}
        assert table.rows("n", "kafka_headers") == [{"n": n, "kafka_headers": held} for n in range(20)]
        assert dead == [*({"value": value, **refused} for value in (*values[20:], b"x")), y]
    else:
        x = {"headers": None, "detail": f"{unframed}; the headers are left out: {problem}"}
        assert table.rows("n") == [{"n": n} for n in range(40)]
        assert dead == [{**y, "value": b"x", **x}, y]


@pytest.mark.parametrize(
    ("policy", "rows", "dead", "skipped"),
    [("row", 2, 0, {}), ("skip", 1, 0, {"tombstone": 1}), ("dead_letter", 1, 1, {})],
)
def test_what_becomes_of_a_record_without_a_value_is_a_setting(
    place: Place, policy: str, rows: int, dead: int, skipped: dict[str, int]
) -> None:
    topic = place.topic()
    place.send(topic, *good(place, topic), None, key=b"k")

    table = place.materialize(f"topic: {topic}\non_tombstone: {policy}")

    assert (len(table.rows()), len(table.dead_letters())) == (rows, dead)
    assert table.state.skipped_by_reason == skipped
    assert table.state.total().balanced
    if policy == "row":
        assert table.rows("n", "s", "kafka_key", "kafka_schema_id")[1] == {
            "n": None, "s": None, "kafka_key": "k", "kafka_schema_id": None,
        }  # fmt: skip


def test_bad_records_may_be_skipped_and_are_counted_by_reason(place: Place) -> None:
    topic = place.topic()
    place.send(topic, *good(place, topic), b"x", b"y", framed(UNKNOWN_ID, b""))

    table = place.materialize(f"topic: {topic}\non_bad_record: skip")

    assert table.state.skipped_by_reason == {"not_framed": 2, "unknown_schema_id": 1}
    assert (len(table.rows()), table.dead_letters()) == (1, [])


def test_the_first_bad_record_may_stop_the_table(place: Place) -> None:
    topic = place.topic()
    place.send(topic, *good(place, topic), b"x")
    run = place.run(f"topic: {topic}\non_bad_record: stop")

    with pytest.raises(BadRecordLimitError, match=f"the record {topic}-0 offset 1 cannot become a row: not_framed"):
        run.batch()

    assert Table(run).state.epoch == 0


HOSTILE = 100_000
SECONDS_FOR_HOSTILE = 60.0
"""Many times what it takes on one idle core: a look-up or a commit a record would take much longer."""


def hostile(value: bytes, count: int) -> list[bytes | None]:
    """Random bytes, random bodies under a real id, random ids, and a good record with one byte changed."""
    seeded = random.Random(11)
    payloads: list[bytes | None] = []
    for n in range(count):
        match n % 5:
            case 0:
                payloads.append(seeded.randbytes(seeded.randrange(40)))
            case 1:
                payloads.append(value[:5] + seeded.randbytes(seeded.randrange(40)))
            case 2:
                payloads.append(framed(2_000_000_000 + n % 150, b"x"))
            case 3:
                at = seeded.choice((0, *range(5, len(value))))  # an id of another subject would be a schema
                payloads.append(value[:at] + bytes([seeded.randrange(256)]) + value[at + 1 :])
            case _:
                payloads.append(None if n % 10 == 4 else value)
    return payloads


@on_both_readers
def test_a_hundred_thousand_hostile_payloads_are_accounted_for_in_seconds(place: Place) -> None:
    topic = place.topic()
    (value,) = good(place, topic)
    sent = hostile(value, HOSTILE)
    place.send(topic, *sent, key=b"k")
    run = place.run(f"topic: {topic}\nbad_record_limit: off\non_tombstone: dead_letter")

    began = time.monotonic()
    catch_up(run)
    seconds = time.monotonic() - began

    total = Table(run).state.total()
    print(f"{HOSTILE:,} hostile payloads in {seconds:.1f} s: {total.formula()}")
    letters = {letter["offset"]: letter["value"] for letter in Table(run).dead_letters("offset", "value")}
    rows = {row["kafka_offset"] for row in Table(run).rows("kafka_offset")}
    assert total.balanced
    assert (total.read, total.rows, total.dead_letters) == (HOSTILE, len(rows), len(letters))
    assert rows | set(letters) == set(range(HOSTILE))
    assert all(sent[offset] == payload for offset, payload in letters.items())
    assert rows >= set(range(9, HOSTILE, 10))
    assert seconds < SECONDS_FOR_HOSTILE


def test_too_many_bad_records_pause_the_table_and_resume_lets_exactly_those_through(place: Place) -> None:
    topic = place.topic()
    place.send(topic, *good(place, topic, 3), *[b"bad"] * 5)
    run = place.run(f"topic: {topic}\nbad_record_limit: {{share: 10%, at_least: 5}}")

    with pytest.raises(BadRecordLimitError, match="5 of the batch's 8 records could not become rows"):
        run.batch()
    with pytest.raises(PausedError):
        run.batch()
    assert (Table(run).rows(), Table(run).dead_letters(), Table(run).state.epoch) == ([], [], 0)

    place.send(topic, *[b"worse"] * 5)
    Table(run).resume()
    (accepted,) = receipts([run.batch()])
    with pytest.raises(BadRecordLimitError):
        run.batch()

    assert (accepted.counts.rows, accepted.counts.dead_letters) == (3, 5)
    assert [letter["value"] for letter in Table(run).dead_letters()] == [b"bad"] * 5
    Table(run).resume()
    catch_up(run)
    assert len(Table(run).dead_letters()) == 10


class Outage:
    """A registry that stops answering and comes back."""

    def __init__(self, real: ConfluentRegistry) -> None:
        self.real, self.down, self.asked = real, False, 0

    def by_id(self, schema_id: int) -> RegisteredSchema | None:
        return self._answers().by_id(schema_id)

    def remembers_missing(self, schema_id: int) -> bool:
        return self.real.remembers_missing(schema_id)

    def latest(self, subject: str) -> RegisteredSchema | None:
        return self._answers().latest(subject)

    def subjects_under(self, prefix: str) -> Collection[str]:
        return self._answers().subjects_under(prefix)

    def _answers(self) -> ConfluentRegistry:
        self.asked += 1
        if self.down:
            raise RegistryError("the registry does not answer", hint="wait")
        return self.real


def test_a_registry_that_is_down_makes_no_dead_letters_and_moves_no_offset(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = place.topic()
    run = place.run(f"topic: {topic}")
    place.send(topic, *good(place, topic))
    catch_up(run)
    other = record_of(("n", "long"), ("later", ["null", "int"]))
    other_id = place.register(f"{place.name}-other", other)
    place.send(topic, *good(place, topic), *encode(other, other_id, {"n": 7, "later": 1}))
    gone = ConfluentRegistry(RegistrySettings("http://127.0.0.1:9/"))
    monkeypatch.setattr(worker, "_registry", lambda settings: gone)
    monkeypatch.setattr(schedule, "RETRY_WAITS_SECONDS", (0.01, 0.01))

    (report,) = run_once([run], Stopping())

    assert type(report.failure) is RegistryError
    assert "could not look up the schema id" in report.failure.what
    table = Table(run)
    assert (len(table.rows()), table.dead_letters(), table.state.epoch, table.paused) == (1, [], 1, None)

    monkeypatch.undo()
    (report,) = run_once([run], Stopping())
    assert (report.failure, report.rows) == (None, 2)
    assert Table(run).dead_letters() == []


def test_a_registry_that_is_down_for_the_driver_is_tried_again_and_then_named(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = place.topic()
    place.send(topic, *good(place, topic))
    run = place.run(f"topic: {topic}")
    outage = Outage(run.clients.registry)  # type: ignore[arg-type]
    outage.down = True
    (run,) = place.runs(f"topic: {topic}", registry=outage)
    monkeypatch.setattr(schedule, "RETRY_WAITS_SECONDS", (0.01, 0.01, 0.01))

    (report,) = run_once([run], Stopping())

    assert type(report.failure) is RegistryError
    assert outage.asked == 4
    assert IcebergLake(run.clients.lake._settings).load(run.spec.identifier) is None  # type: ignore[attr-defined]
    outage.down = False
    assert run_once([run], Stopping())[0].rows == 1
