"""`identity` with fields of the key: records without a value have it, too, and delete its row."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from changelogs import Changelog
from hypothesis import example, given, settings
from hypothesis import strategies as st
from ordered_changelogs import STAMPED, Order, OrderedChangelog, Stamped, milliseconds

from frazil.model.progress import Counts
from tests.fakes.connect_samples import INT, STRING, avro_payload, avro_schema, optional
from tests.fakes.connect_samples import struct as connect_struct
from tests.sampling import examples

KEY = connect_struct("shop.Key", shop=INT, id=optional(STRING))


class InParts(OrderedChangelog):
    """Keys of a shop and an id, of which the id is the identity: it comes from other shops, too."""

    @classmethod
    def of(cls, folder: Path) -> InParts:
        made = cls.at(folder, key="avro", identity=("kafka_key.id",))
        assert isinstance(made, cls)
        made.world.registry.register("orders-key", avro_schema(KEY))
        return made

    def send_at(self, *records: Stamped) -> None:
        super().send_at(*records)
        for *_, partition in records:
            there = self.partitions.records[partition]
            there[:] = [(_key(key, at), value, stamp) for at, (key, value, stamp) in enumerate(there)]

    def records(self) -> dict[str, Order]:
        found: dict[str, Order] = {}
        names = ["kafka_key", "kafka_timestamp", "kafka_partition", "kafka_offset"]
        for batch in self.world.lake.read(self.view, columns=names, equal={}):
            for key, stamp, *place in zip(*(batch.column(name).to_pylist() for name in names), strict=True):
                assert key["id"] not in found
                found[key["id"]] = (milliseconds(stamp), *place)
        return found


def _key(key: bytes | None, shop: int) -> bytes | None:
    """Return a key as the converter writes it, unless it is written already."""
    if key is None or key[:1] == b"\0":
        return key
    return struct.pack(">bI", 0, 1) + avro_payload(KEY, {"shop": shop, "id": key.decode()})


@settings(max_examples=examples(8, 300), deadline=None)
@given(st.lists(st.lists(STAMPED, min_size=1, max_size=6), min_size=1, max_size=3))
@example([[("a", 1, 1, 0), ("b", 1, 1, 0)], [("a", None, 3, 1)], [("a", 2, 2, 0), ("b", 2, 2, 1)]])
def test_whatever_comes_the_rows_are_those_of_the_model(
    tmp_path_factory: pytest.TempPathFactory, batches: list[list[Stamped]]
) -> None:
    changelog = InParts.of(tmp_path_factory.mktemp("t"))
    for batch in batches:
        changelog.send_at(*batch)
        changelog.catch_up()

    changelog.check()
    assert changelog.against_kafka().findings == ()


def test_a_record_without_a_value_deletes_the_row_of_its_part_of_the_key(tmp_path: Path) -> None:
    changelog = InParts.of(tmp_path)
    changelog.send_at(("a", 1, 1, 0), ("b", 1, 1, 0))
    changelog.catch_up()
    changelog.send_at(("a", None, 3, 1))
    changelog.catch_up()
    changelog.send_at(("a", 2, 2, 0))
    changelog.catch_up()

    assert changelog.records() == {"b": (1, 0, 1)}
    assert changelog.verify().counts == Counts(read=4, rows=2, deletes=1, duplicates=1)


def test_a_null_part_of_the_key_is_no_identity(tmp_path: Path) -> None:
    log = Changelog.at(tmp_path, key="avro", identity=("kafka_key.id",), order_by="kafka_timestamp")
    log.world.registry.register("orders-key", avro_schema(KEY))
    log.send(("x", 1), ("y", None))
    log.world.keys |= dict.fromkeys(range(2), struct.pack(">bI", 0, 1) + avro_payload(KEY, {"shop": 1, "id": None}))
    log.catch_up()

    assert log.verify().counts == Counts(read=2, dead_letters=2)
