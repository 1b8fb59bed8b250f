"""Names, durations, sizes, transforms and hints, each as a table of what is written and what it means."""

from __future__ import annotations

from datetime import timedelta

import pytest

from frazil.model.partitioning import PartitionField, partition_field, split_fields
from frazil.specs.names import safe_name
from frazil.specs.partitions import parse_partition
from frazil.specs.problems import suggest
from frazil.specs.scalars import parse_duration, parse_share, parse_size, parse_whole
from frazil.specs.shapes import Unfit


@pytest.mark.parametrize(
    ("topic", "table"),
    [
        ("stock_trades", "stock_trades"),
        ("Orders.V1", "orders_v1"),
        ("orderItems", "order_items"),
        ("EU-orders..raw", "eu_orders_raw"),
        ("2024", "t_2024"),
        ("__x__", "x"),
        ("...", "topic"),
    ],
)
def test_a_topic_name_becomes_lower_case_snake(topic: str, table: str) -> None:
    assert safe_name(topic) == table


def test_long_topic_names_stay_apart_and_short_enough() -> None:
    one, other = safe_name("a" * 248 + "b"), safe_name("a" * 248 + "c")

    assert one != other
    assert len(one) == len(other) == 200


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("30s", 30), ("5m", 300), ("1h", 3600), ("7d", 604800), ("1.5 h", 5400), ("36500d", 3_153_600_000)],
)
def test_durations(text: str, seconds: int) -> None:
    assert parse_duration(text) == timedelta(seconds=seconds)


@pytest.mark.parametrize(
    "text", ["30", "0s", "s", "-5m", "5M", "1h30m", "010s", "5 min", "٣s", "36501d", "1000000000000d"]
)
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(Unfit):
        parse_duration(text)


@pytest.mark.parametrize(
    ("text", "size"), [("512MB", 512_000_000), ("1GB", 10**9), ("1GiB", 2**30), ("64 KiB", 65536), ("10B", 10)]
)
def test_sizes(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["512", "512mb", "0MB", "MB", "1 gig", "-1GB"])
def test_what_is_no_size(text: str) -> None:
    with pytest.raises(Unfit):
        parse_size(text)


@pytest.mark.parametrize("text", ["5", "0.05", "101%", "-1%", "%"])
def test_what_is_no_share(text: str) -> None:
    with pytest.raises(Unfit):
        parse_share(text)


@pytest.mark.parametrize("text", ["", "-1", "1.0", "1e6", "0x10", "010", "_1", "1_", "9223372036854775808", "²"])
def test_what_is_no_whole_number(text: str) -> None:
    with pytest.raises(Unfit):
        parse_whole(text)


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ("symbol", PartitionField("identity", "symbol")),
        ("identity(symbol)", PartitionField("identity", "symbol")),
        ("day( at )", PartitionField("day", "at")),
        ("void(at)", PartitionField("void", "at")),
        ("bucket(16,account)", PartitionField("bucket", "account", 16)),
        ("truncate(4, symbol)", PartitionField("truncate", "symbol", 4)),
    ],
)
def test_transforms(text: str, field: PartitionField) -> None:
    assert parse_partition(text) == field
    assert parse_partition(str(field)) == field
    assert partition_field(text) == field
    assert split_fields(f"{field}, {field}") == [str(field)] * 2


@pytest.mark.parametrize(
    ("column", "name"), [("größe", "gr_xF6_xDFe_day"), ("a.b", "a_b_day"), ("\U0001d482", "_x1D482_day")]
)
def test_a_partition_field_has_a_name_that_manifests_can_hold(column: str, name: str) -> None:
    assert PartitionField("day", column).name == name


@pytest.mark.parametrize("column", ["day", "नाम_ts", "my-ts", "a.b"])
def test_a_column_of_any_name_is_taken_whole(column: str) -> None:
    for field in (
        PartitionField("identity", column),
        PartitionField("day", column),
        PartitionField("bucket", column, 4),
    ):
        assert partition_field(str(field)) == field


@pytest.mark.parametrize(
    "text",
    ["", "day()", "day(a, b)", "day(4, a)", "bucket(a)", "bucket(0, a)", "bucket(a, 16)", "a.b", "day(a",
     "bucket[4](a)", "DAY(a)", "bucket(99999999999, a)"],
)  # fmt: skip
def test_what_is_no_transform(text: str) -> None:
    with pytest.raises(Unfit):
        parse_partition(text)


@pytest.mark.parametrize(
    ("word", "hint"),
    [("tabel", "did you mean table?"), ("TOPIC", "did you mean topic?"), ("zzz", "use one of: table, topic")],
)
def test_hints(word: str, hint: str) -> None:
    assert suggest(word, ["table", "topic"]) == hint


def test_the_hint_for_a_single_possibility() -> None:
    assert suggest("zzz", ["stock_trades"]) == "use stock_trades, the only one"
