"""The position of a change in the source's log: which fields, and that they order as the log does."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from frazil.formats.debezium.position import FIELDS, Position, position
from frazil.model.change_events import POSITIONS
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
    found = at(connector, LATER[connector])

    places = list(zip(*(column.tolist() for column in found.columns), strict=True))
    assert places == sorted(set(places))
    assert len(found.columns) == len(POSITIONS[connector])
    assert found.rejects == ()


def test_the_parts_of_a_position_are_numbers() -> None:
    given = [{"commit_lsn": "00000027:00000758:0005", "change_lsn": None, "event_serial_no": 2}]

    found = at("sqlserver", given)

    assert [column.tolist() for column in found.columns] == [[0x27], [0x0758_0005], [-1], [-1], [2]]


@pytest.mark.parametrize(
    ("connector", "bad", "path"),
    [
        ("postgresql", {"connector": "yugabytedb", "lsn": 1}, "source.connector"),
        ("oracle", {"scn": "12x"}, "source.scn"),
        ("oracle", {"scn": "1" * 19}, "source.scn"),
        ("mysql", {"file": "mysql-bin", "pos": 1, "row": 1}, "source.file"),
        ("sqlserver", {"commit_lsn": "27:758:5", "change_lsn": None, "event_serial_no": 1}, "source.commit_lsn"),
    ],
)
def test_a_position_that_cannot_be_read_rejects_its_record(connector: str, bad: dict[str, Any], path: str) -> None:
    good = LATER[connector][-1]

    found = at(connector, [good, bad, good])

    assert [(each.index, each.reason, each.path) for each in found.rejects] == [(1, Reason.BAD_FORMAT, path)]
    assert all(column[0] == column[2] for column in found.columns)


def test_a_change_without_a_position_is_rejected_but_for_the_rows_of_a_snapshot() -> None:
    found = at("postgresql", [{"lsn": None}, {"lsn": None}, {"lsn": 1}], is_snapshot=[True, False, False])

    assert [(each.index, each.reason, each.path) for each in found.rejects] == [(1, Reason.NULL_ORDER, "source.lsn")]
    assert found.columns[0].tolist() == [-1, -1, 1]


def test_only_the_first_field_of_a_position_must_have_a_value() -> None:
    given = [{"commit_lsn": "00000027:00000758:0005", "change_lsn": None, "event_serial_no": 1}]

    assert at("sqlserver", given, is_snapshot=[False]).rejects == ()


def test_a_file_without_a_name_is_no_position() -> None:
    found = at("mysql", [{"file": "", "pos": 0, "row": 0}] * 2, is_snapshot=[True, False])

    assert [(each.index, each.reason) for each in found.rejects] == [(1, Reason.NULL_ORDER)]
    assert found.columns[0].tolist() == [-1, -1]


def test_records_without_a_source_have_no_connector() -> None:
    given = pa.array([None], pa.struct([("connector", pa.large_string()), ("lsn", pa.int64())]))

    (reject,) = position("postgresql", given, np.array([True])).rejects

    assert (reject.reason, reject.path) == (Reason.BAD_FORMAT, "source.connector")


def at(connector: str, values: list[dict[str, Any]], *, is_snapshot: list[bool] | None = None) -> Position:
    snapshots = np.ones(len(values), np.bool_) if is_snapshot is None else np.array(is_snapshot)
    return position(connector, source(connector, values), snapshots)


def source(connector: str, values: list[dict[str, Any]]) -> pa.StructArray:
    integers = {**TYPES, "event_serial_no": pa.int64()}
    types = pa.struct([(name, integers.get(name, pa.large_string())) for name in ("connector", *FIELDS[connector])])
    return pa.array([{"connector": connector, **each} for each in values], types)
