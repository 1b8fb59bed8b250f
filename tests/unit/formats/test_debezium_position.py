"""The position of a change in the source's log: which fields, and that they order as the log does."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from frazil.formats.debezium.position import FIELDS, position
from frazil.model.dead_letter import Reason

TYPES = {"lsn": pa.int64(), "pos": pa.int64(), "row": pa.int32(), "ts_ms": pa.int64(), "ord": pa.int32()}
LATER: dict[str, list[dict[str, Any]]] = {
    "postgresql": [{"lsn": None}, {"lsn": 9}, {"lsn": 24_023_128}],
    "mysql": [
        {"file": "bin.000009", "pos": 900, "row": 1},
        {"file": "bin.000010", "pos": 4, "row": 0},
        {"file": "bin.000010", "pos": 4, "row": 1},
        {"file": "bin.000010", "pos": 5, "row": 0},
        {"file": "other.bin.1000000", "pos": 4, "row": 0},
    ],
    "mariadb": [{"file": "b.1", "pos": 1, "row": 0}, {"file": "b.2", "pos": 0, "row": 0}],
    "sqlserver": [
        {"commit_lsn": None, "change_lsn": None, "event_serial_no": None},
        {"commit_lsn": "00000025:00000d98:00a2", "change_lsn": None, "event_serial_no": None},
        {"commit_lsn": "00000027:00000758:0005", "change_lsn": "00000027:00000758:0003", "event_serial_no": 1},
        {"commit_lsn": "00000027:00000758:0005", "change_lsn": "00000027:00000758:0003", "event_serial_no": 2},
        {"commit_lsn": "00000027:00000758:0005", "change_lsn": "00000027:00000758:0004", "event_serial_no": 1},
        {"commit_lsn": "00000027:0000AC00:0001", "change_lsn": "00000027:00000758:0004", "event_serial_no": 1},
        {"commit_lsn": "ffffffff:ffffffff:ffff", "change_lsn": "ffffffff:ffffffff:ffff", "event_serial_no": 1},
    ],
    "oracle": [{"scn": None}, {"scn": "999"}, {"scn": "1000"}],
    "mongodb": [{"ts_ms": 1000, "ord": 2}, {"ts_ms": 2000, "ord": 1}, {"ts_ms": 2000, "ord": 2}],
}


@pytest.mark.parametrize("connector", FIELDS)
def test_positions_order_as_the_log_does(connector: str) -> None:
    found = position(connector, source(connector, LATER[connector]))

    places = list(zip(*(column.tolist() for column in found.columns), strict=True))
    assert places == sorted(set(places))
    assert found.rejects == ()


def test_the_parts_of_a_position_are_numbers() -> None:
    given = [{"commit_lsn": "00000027:00000758:0005", "change_lsn": None, "event_serial_no": 2}]

    found = position("sqlserver", source("sqlserver", given))

    assert [column.tolist() for column in found.columns] == [[0x27], [0x0758_0005], [-1], [-1], [2]]


@pytest.mark.parametrize(
    ("connector", "bad", "path"),
    [
        ("oracle", {"scn": "12x"}, "source.scn"),
        ("oracle", {"scn": "1" * 19}, "source.scn"),
        ("mysql", {"file": "mysql-bin", "pos": 1, "row": 1}, "source.file"),
        ("sqlserver", {"commit_lsn": "27:758:5", "change_lsn": None, "event_serial_no": 1}, "source.commit_lsn"),
    ],
)
def test_a_position_that_cannot_be_read_rejects_its_record(connector: str, bad: dict[str, Any], path: str) -> None:
    good = LATER[connector][-1]

    found = position(connector, source(connector, [good, bad, good]))

    assert [(each.index, each.reason, each.path) for each in found.rejects] == [(1, Reason.BAD_FORMAT, path)]
    assert all(column[0] == column[2] for column in found.columns)


def test_records_without_a_source_come_first() -> None:
    given = pa.array([None, {"lsn": 1}], pa.struct([("lsn", pa.int64())]))

    assert [column.tolist() for column in position("postgresql", given).columns] == [[-1, 1]]


def source(connector: str, values: list[dict[str, Any]]) -> pa.StructArray:
    names = [name for name, _ in FIELDS[connector]]
    integers = {**TYPES, "event_serial_no": pa.int64()}
    return pa.array(values, pa.struct([(name, integers.get(name, pa.large_string())) for name in names]))
