"""Keys of every format, every column about the record, and whichever subject holds the schema."""

from __future__ import annotations

import time
from datetime import UTC, datetime

import pytest
from breadth import Place, catch_up, encode, receipts, record_of

ORDER = record_of(("n", "long"), name="shop.Order")
RETURN = record_of(("n", "long"), ("why", ["null", "string"]), name="shop.Return")


def orders(place: Place, subject: str, *numbers: int) -> list[bytes]:
    return encode(ORDER, place.register(subject, ORDER), *({"n": n} for n in numbers))


def test_every_column_about_the_record_says_what_kafka_says(place: Place) -> None:
    topic = place.topic()
    (value,) = orders(place, f"{topic}-value", 1)
    headers = [("a", b"1"), ("b", None), ("a", b"\x00\xff"), ("", b"")]
    place.send(topic, value, key=b"k", timestamp=1_600_000_000_123, headers=headers)
    place.send(topic, value)
    keep = "topic, partition, offset, timestamp, timestamp_type, key, headers, schema_id, leader_epoch, value"

    before = time.time()
    table = place.materialize(f"topic: {topic}\nmetadata: {{keep: [{keep}]}}")

    first, second = table.rows()
    assert first == {
        "n": 1,
        "kafka_topic": topic,
        "kafka_partition": 0,
        "kafka_offset": 0,
        "kafka_timestamp": datetime(2020, 9, 13, 12, 26, 40, 123_000, UTC),
        "kafka_timestamp_type": "CREATE_TIME",
        "kafka_key": "k",
        "kafka_headers": [{"key": k, "value": v} for k, v in headers],
        "kafka_schema_id": int.from_bytes(value[1:5], "big"),
        "kafka_leader_epoch": 0,
        "kafka_value": value,
    }
    assert (second["kafka_key"], second["kafka_headers"]) == (None, None)
    assert abs(second["kafka_timestamp"].timestamp() - before) < 60


def test_the_time_of_appending_is_told_from_the_time_of_creation(place: Place) -> None:
    topic = place.topic(**{"message.timestamp.type": "LogAppendTime"})
    place.send(topic, *orders(place, f"{topic}-value", 1), timestamp=1)

    (row,) = place.materialize(f"topic: {topic}\nmetadata: {{keep: [timestamp, timestamp_type]}}").rows()

    assert row["kafka_timestamp_type"] == "LOG_APPEND_TIME"
    assert row["kafka_timestamp"].year > 2000


@pytest.mark.parametrize(
    ("key", "sent", "expected"),
    [
        ("none", b"\xff", "absent"),
        ("bytes", b"\x00\xff", b"\x00\xff"),
        ("bytes", None, None),
        ("string", "é".encode(), "é"),
        ("string", b"", ""),
        ("string", None, None),
    ],
)
def test_a_plain_key_is_kept_as_it_is(place: Place, key: str, sent: bytes | None, expected: object) -> None:
    topic = place.topic()
    place.send(topic, *orders(place, f"{topic}-value", 1), key=sent)

    (row,) = place.materialize(f"topic: {topic}\nkey: {key}").rows()

    assert row.get("kafka_key", "absent") == expected


def test_avro_keys_of_a_record_become_a_struct_and_follow_renames(place: Place) -> None:
    topic = place.topic()
    (value,) = orders(place, f"{topic}-value", 1)
    old, new = (
        record_of(("id", "int"), name="K"),
        record_of(("order_id", "long", "id"), ("shop", ["null", "string"]), name="K"),
    )
    old_key, odd = encode(old, place.register(f"{topic}-key", old), {"id": 1}, {"id": 2})
    place.send(topic, value, key=old_key)
    place.send(topic, value)
    run = place.run(f"topic: {topic}\nkey: avro")
    catch_up(run)
    (new_key,) = encode(new, place.register(f"{topic}-key", new), {"order_id": 3, "shop": "x"})
    place.send(topic, value, key=new_key)
    place.send(topic, value, key=odd)
    catch_up(run)

    table = place.materialize(f"topic: {topic}\nkey: avro")

    assert table.types["kafka_key"] == "struct<order_id: long, shop: string>"
    assert [row["kafka_key"] for row in table.rows()] == [
        {"order_id": 1, "shop": None},
        None,
        {"order_id": 3, "shop": "x"},
        {"order_id": 2, "shop": None},
    ]
    assert len(table.state.key_schema_ids) == 2


@pytest.mark.parametrize(
    ("schema", "key", "column", "expected"),
    [
        ({"type": "string"}, "k", "string", "k"),
        ({"type": "long"}, 2**40, "long", 2**40),
        ({"type": "array", "items": "int"}, [1, 2], "list<int>", [1, 2]),
        ({"type": "long", "logicalType": "timestamp-millis"}, 0, "timestamptz", datetime(1970, 1, 1, tzinfo=UTC)),
    ],
)
def test_avro_keys_of_any_other_type_are_that_type(
    place: Place, schema: object, key: object, column: str, expected: object
) -> None:
    topic = place.topic()
    (encoded,) = encode(schema, place.register(f"{topic}-key", schema), key)
    place.send(topic, *orders(place, f"{topic}-value", 1), key=encoded)
    place.send(topic, *orders(place, f"{topic}-value", 2))

    table = place.materialize(f"topic: {topic}\nkey: avro")

    assert table.types["kafka_key"] == column
    assert [row["kafka_key"] for row in table.rows()] == [expected, None]


def test_a_list_of_records_as_key_follows_renames_too(place: Place) -> None:
    topic = place.topic()
    (value,) = orders(place, f"{topic}-value", 1)
    old = {"type": "array", "items": record_of(("a", "int"), name="K")}
    new = {"type": "array", "items": record_of(("b", "int", "a"), name="K")}
    (old_key,) = encode(old, place.register(f"{topic}-key", old), [{"a": 1}])
    place.send(topic, value, key=old_key)
    (new_key,) = encode(new, place.register(f"{topic}-key", new), [{"b": 2}])
    place.send(topic, value, key=new_key)

    table = place.materialize(f"topic: {topic}\nkey: avro")

    assert [row["kafka_key"] for row in table.rows()] == [[{"b": 1}], [{"b": 2}]]


@pytest.mark.parametrize("key", ["avro", "string", "bytes"])
def test_keys_that_are_not_kept_are_not_judged(place: Place, key: str) -> None:
    topic = place.topic()
    place.send(topic, *orders(place, f"{topic}-value", 1), key=b"\xff\xff")

    table = place.materialize(f"topic: {topic}\nkey: {key}\nmetadata: {{keep: [timestamp]}}")

    assert [row["n"] for row in table.rows()] == [1]
    assert "kafka_key" not in table.types


# --- subjects -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("naming", ["record", "topic-record"])
def test_where_each_record_names_its_own_subject_columns_come_with_the_records(place: Place, naming: str) -> None:
    topic = place.topic()
    prefix = f"{topic}-" if naming == "topic-record" else f"{place.name}."
    place.send(topic, *orders(place, f"{prefix}shop.Order", 1, 2))
    returns = encode(RETURN, place.register(f"{prefix}shop.Return", RETURN), {"n": 3, "why": "broken"})
    place.send(topic, *returns)
    place.send(topic, *orders(place, f"{prefix}shop.Order", 4))

    table = place.materialize(f"topic: {topic}\nsubject: {naming}")

    assert table.rows("n", "why") == [
        {"n": 1, "why": None},
        {"n": 2, "why": None},
        {"n": 3, "why": "broken"},
        {"n": 4, "why": None},
    ]
    assert len(table.state.schema_ids) == 2


def test_a_bad_key_is_refused_even_before_any_key_is_known(place: Place) -> None:
    topic = place.topic()
    place.send(topic, *orders(place, f"{topic}-value", 1), key=b"\x00\x7f\xff\xff\x00x")
    place.send(topic, *orders(place, f"{topic}-value", 2), key=b"unframed")
    place.send(topic, *orders(place, f"{topic}-value", 3))

    table = place.materialize(f"topic: {topic}\nkey: avro\nkey_subject: record")

    assert [row["n"] for row in table.rows()] == [3]
    assert [each["reason"] for each in table.dead_letters()] == ["bad_key", "bad_key"]


@pytest.mark.parametrize("keep", ["schema_id", "schema_id, key"])
def test_tombstones_before_any_known_value_are_rows(place: Place, keep: str) -> None:
    topic = place.topic()
    place.send(topic, None, b"unframed", None)

    table = place.materialize(f"topic: {topic}\nsubject: record\nmetadata: {{keep: [{keep}]}}")

    assert [row["kafka_offset"] for row in table.rows()] == [0, 2]


def test_a_subject_may_be_named(place: Place) -> None:
    topic = place.topic()
    place.send(topic, *orders(place, f"{place.name}-contract", 1))

    table = place.materialize(f"topic: {topic}\nsubject: {{name: {place.name}-contract}}")

    assert table.rows("n") == [{"n": 1}]


def test_several_schemas_in_one_batch_keep_the_order_of_offsets(place: Place) -> None:
    topic = place.topic()
    old = record_of(("n", "int"))
    new = record_of(("n", "long"), ("more", ["null", "string"]))
    old_id, new_id = place.register(f"{topic}-value", old), place.register(f"{topic}-value", new)
    for n in range(20):
        place.send(topic, *(encode(old, old_id, {"n": n}) if n % 3 else encode(new, new_id, {"n": n, "more": "m"})))
    place.send(topic, b"bad", None)
    run = place.run(f"topic: {topic}")
    assert [r.counts.rows for r in receipts(catch_up(run))][-1:] != []

    table = place.materialize(f"topic: {topic}")

    rows = table.rows("kafka_offset", "n", "more", "kafka_schema_id")
    assert [row["n"] for row in rows] == [*range(20), None]
    assert [row["kafka_offset"] for row in rows] == [*range(20), 21]
    assert [row["kafka_schema_id"] for row in rows] == [old_id if n % 3 else new_id for n in range(20)] + [None]
    assert [row["more"] for row in rows[:3]] == ["m", None, None]


def test_a_schema_may_refer_to_others_which_refer_to_others(place: Place) -> None:
    topic = place.topic()
    money = record_of(("cents", "long"), name="base.Money")
    line = record_of(("price", "base.Money"), name="base.Line")
    order = record_of(("lines", {"type": "array", "items": "base.Line"}), ("total", "base.Money"), name="shop.Order")
    place.register(f"{place.name}-money", money)
    place.register(f"{place.name}-line", line, references=[("base.Money", f"{place.name}-money")])
    refers = [("base.Line", f"{place.name}-line"), ("base.Money", f"{place.name}-money")]
    schema_id = place.register(f"{topic}-value", order, references=refers)
    sent = {"lines": [{"price": {"cents": 5}}], "total": {"cents": 5}}
    place.send(topic, *encode(order, schema_id, sent, uses=[money, line]))

    assert place.materialize(f"topic: {topic}").rows("lines", "total") == [sent]


def test_a_schema_that_is_no_record_is_one_column(place: Place) -> None:
    topic = place.topic()
    place.send(topic, *encode("string", place.register(f"{topic}-value", {"type": "string"}), "a", "b"))

    assert place.materialize(f"topic: {topic}").rows("value") == [{"value": "a"}, {"value": "b"}]
