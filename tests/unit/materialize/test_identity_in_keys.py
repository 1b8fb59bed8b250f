"""`identity` and `order_by` with fields of the key: records without a value have them, too, and delete their row."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from changelogs import Changelog
from hypothesis import example, given, settings
from hypothesis import strategies as st
from ordered_changelogs import STAMPED, Order, OrderedChangelog, Stamped, milliseconds

from frazil.model.progress import Counts
from tests.fakes.connect_samples import INT, LONG, STRING, avro_payload, avro_schema, optional
from tests.fakes.connect_samples import struct as connect_struct
from tests.sampling import examples

KEY = connect_struct("shop.Key", shop=INT, id=optional(STRING), version=optional(LONG))
ORDERS = ("kafka_timestamp", "kafka_key.version")


class InParts(OrderedChangelog):
    """Keys of a shop, an id and a version. The id, which comes from other shops, too, is the identity.

    Timestamps go backwards where the version orders.
    """

    @classmethod
    def of(cls, folder: Path, order_by: str = "kafka_timestamp") -> InParts:
        made = cls.at(folder, key="avro", identity=("kafka_key.id",), order_by=order_by)
        assert isinstance(made, cls)
        made.world.registry.register("orders-key", avro_schema(KEY))
        return made

    def send_at(self, *records: Stamped) -> None:
        super().send_at(*records)
        for *_, partition in records:
            there = self.partitions.records[partition]
            there[:] = [self._sent(at, *each) for at, each in enumerate(there)]

    def _sent(
        self, shop: int, key: bytes | None, value: bytes | None, stamp: int
    ) -> tuple[bytes | None, bytes | None, int]:
        """Return a record with its key as the converter writes it, unless it is written already."""
        if key is None or key[:1] == b"\0":
            return key, value, stamp
        framed = _framed({"shop": shop, "id": key.decode(), "version": stamp})
        return framed, value, stamp if self.spec.order_by == "kafka_timestamp" else 1_000 - stamp

    def records(self) -> dict[str, Order]:
        found: dict[str, Order] = {}
        names = ["kafka_key", "kafka_timestamp", "kafka_partition", "kafka_offset"]
        for batch in self.world.lake.read(self.view, columns=names, equal={}):
            for key, stamp, *place in zip(*(batch.column(name).to_pylist() for name in names), strict=True):
                assert key["id"] not in found
                by_time = self.spec.order_by == "kafka_timestamp"
                found[key["id"]] = (milliseconds(stamp) if by_time else key["version"], *place)
        return found


def _framed(key: dict[str, object]) -> bytes:
    return struct.pack(">bI", 0, 1) + avro_payload(KEY, key)


@pytest.mark.parametrize("order_by", ORDERS)
@settings(max_examples=examples(8, 300), deadline=None)
@given(st.lists(st.lists(STAMPED, min_size=1, max_size=6), min_size=1, max_size=3))
@example([[("a", 1, 1, 0), ("b", 1, 1, 0)], [("a", None, 3, 1)], [("a", 2, 2, 0), ("b", 2, 2, 1)]])
def test_whatever_comes_the_rows_are_those_of_the_model(
    tmp_path_factory: pytest.TempPathFactory, order_by: str, batches: list[list[Stamped]]
) -> None:
    changelog = InParts.of(tmp_path_factory.mktemp("t"), order_by)
    for batch in batches:
        changelog.send_at(*batch)
        changelog.catch_up()

    changelog.check()
    assert changelog.against_kafka().findings == ()


@pytest.mark.parametrize("order_by", ORDERS)
def test_a_record_without_a_value_deletes_the_row_of_its_part_of_the_key(tmp_path: Path, order_by: str) -> None:
    changelog = InParts.of(tmp_path, order_by)
    changelog.send_at(("a", 1, 1, 0), ("b", 1, 1, 0))
    changelog.catch_up()
    changelog.send_at(("a", None, 3, 1))
    changelog.catch_up()
    changelog.send_at(("a", 2, 2, 0), ("b", None, 0, 1))  # both are late
    changelog.catch_up()

    assert changelog.records() == {"b": (1, 0, 1)}
    assert changelog.verify().counts == Counts(read=5, rows=2, deletes=1, duplicates=2)


def test_a_null_part_of_the_key_is_no_identity(tmp_path: Path) -> None:
    log = Changelog.at(tmp_path, key="avro", identity=("kafka_key.id",), order_by="kafka_timestamp")
    log.world.registry.register("orders-key", avro_schema(KEY))
    log.send(("x", 1), ("y", None))
    log.world.keys |= dict.fromkeys(range(2), _framed({"shop": 1, "id": None, "version": 1}))
    log.catch_up()

    assert log.verify().counts == Counts(read=2, dead_letters=2)


def test_a_null_version_is_no_order(tmp_path: Path) -> None:
    log = Changelog.at(tmp_path, key="avro", identity=("kafka_key.id",), order_by="kafka_key.version")
    log.world.registry.register("orders-key", avro_schema(KEY))
    log.send(("x", 1), ("y", None), ("z", 1))
    log.world.keys |= dict.fromkeys(range(2), _framed({"shop": 1, "id": "a", "version": None}))
    log.world.keys[2] = b"\xff"
    log.catch_up()

    assert log.verify().counts == Counts(read=3, dead_letters=3)
    assert log.against_kafka().findings == ()
