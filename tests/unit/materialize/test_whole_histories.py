"""Tables with `write: history`: whole batches, held against a model of the topic in plain Python."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from changelogs import Changelog
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyiceberg.expressions import EqualTo
from writer_schemas import WriterSchemas

from frazil.adapters.iceberg.lake import IcebergLake
from frazil.model.errors import IncompatibleSchemaError
from frazil.proof.verification import FindingKind
from frazil.verify import intervals
from tests.fakes.watched_lake import Commit, WatchedLake
from tests.sampling import combined, examples

Version = tuple[int, int, int | None]
"""The offset of a row's record, and its interval in seconds."""
STAMPED = st.tuples(st.sampled_from("abc"), st.integers(0, 9) | st.none(), st.integers(0, 9))


@dataclass
class History(Changelog):
    """A changelog whose table has every version of a key."""

    versions: dict[str, list[Version]] = field(default_factory=dict)

    @classmethod
    def at(cls, folder: Path, **changes: object) -> History:
        made = super().at(folder, write="history", **changes)
        assert isinstance(made, cls)
        return made

    def sent_at(self, *records: tuple[str, int | None, int]) -> None:
        """Send records, each with a key, a value and its time in seconds."""
        for key, value, seconds in records:
            offset = len(self.world.values)
            self.world.times[offset] = 1000 * seconds
            self.send((key, value))
            versions = self.versions.setdefault(key, [])
            is_open = bool(versions) and versions[-1][2] is None
            if value is None and not is_open:
                continue
            before = [each for version in versions[-1:] for each in version[1:] if each is not None]
            time = max([seconds, *before])
            if is_open:
                versions[-1] = (*versions[-1][:2], time)
            if value is not None:
                versions.append((offset, time, None))

    def stored(self) -> dict[str, list[Version]]:
        found: dict[str, list[Version]] = {key: [] for key in self.versions}
        names = ["kafka_key", "kafka_offset", "valid_from", "valid_to", "is_current"]
        rows = [row for part in self.world.lake.read(self.view, columns=names, equal={}) for row in part.to_pylist()]
        for row in sorted(rows, key=lambda row: row["kafka_offset"]):
            end = None if row["valid_to"] is None else int(row["valid_to"].timestamp())
            assert row["is_current"] is (end is None)
            found[row["kafka_key"]].append((row["kafka_offset"], int(row["valid_from"].timestamp()), end))
        return found

    def check(self) -> None:
        assert self.stored() == self.versions
        verification = self.verify()
        assert verification.findings == ()
        assert verification.counts == self.counts


@pytest.fixture
def history(tmp_path: Path) -> History:
    return History.at(tmp_path)


def test_each_record_is_a_row_until_the_next_one_of_its_key(history: History) -> None:
    history.sent_at(("a", 1, 10), ("b", 1, 11), ("a", 2, 20))
    history.catch_up()
    history.sent_at(("a", 3, 30), ("b", None, 31), ("c", None, 32))
    history.catch_up()
    history.sent_at(("b", 2, 40))
    history.catch_up()

    history.check()
    assert history.stored() == {
        "a": [(0, 10, 20), (2, 20, 30), (3, 30, None)],
        "b": [(1, 11, 31), (6, 40, None)],
        "c": [],
    }
    assert history.against_kafka().findings == ()


def test_a_batch_without_any_key_changes_no_row(history: History) -> None:
    history.sent_at(("a", 1, 10))
    history.catch_up()
    history.send((None, 1))
    history.catch_up()

    history.check()


def test_a_batch_is_one_snapshot_which_adds_what_it_takes_out(history: History) -> None:
    history.sent_at(("a", 1, 10), ("b", 1, 11))
    history.catch_up()
    before = history.view
    history.sent_at(("a", 2, 20), ("a", 3, 30))
    history.catch_up()

    head = history.view.head_snapshot()
    assert head is not None and head.parent_id == before.head
    assert (head.figure("added-records"), head.figure("added-position-deletes")) == (4, 2)
    history.check()


@pytest.mark.parametrize(
    ("sort_by", "partition_by"),
    combined([("valid_from desc nulls last",), ()], [(), ("is_current",), ("bucket(3, kafka_key)",)]),
)
def test_rows_follow_each_other_however_they_are_laid_out(
    tmp_path: Path, partition_by: tuple[str, ...], sort_by: tuple[str, ...]
) -> None:
    history = History.at(tmp_path, partition_by=partition_by, sort_by=sort_by)
    for batch in range(3):
        history.sent_at(*((key, batch, 10 * batch + n) for n, key in enumerate("abcdcba")), ("b", None, 10 * batch + 9))
        history.catch_up()

        history.check()


@settings(max_examples=examples(4, 150), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.lists(STAMPED, min_size=1, max_size=8), max_size=4))
def test_any_changelog_in_any_batches_is_the_model(
    tmp_path: Path, batches: list[list[tuple[str, int | None, int]]]
) -> None:
    history = History.at(tmp_path)
    for batch in batches:
        history.sent_at(*batch)
        history.catch_up()

        history.check()
    if batches:
        assert history.against_kafka().findings == ()


def test_rows_are_written_anew_for_the_head_that_another_driver_has_left(history: History) -> None:
    history.sent_at(("a", 1, 10), ("b", 1, 11))
    history.catch_up()
    history.sent_at(("a", 2, 20))
    settings_, overtaken = history.world.lake._settings, False

    def around(name: str, commit: Commit) -> object:
        nonlocal overtaken
        if name == "rows publish" and not overtaken:
            overtaken = True
            history.world.lake = IcebergLake(settings_)
            history.replace_rows(lambda rows: rows.sort_by([("kafka_offset", "descending")]))
            history.world.lake = lake
        return commit()

    lake = WatchedLake(settings_, around=around)
    history.world.lake = lake
    history.catch_up()

    history.world.lake = IcebergLake(settings_)
    assert overtaken
    assert history.stored() == history.versions


def test_rows_written_anew_take_the_columns_of_a_wider_schema(tmp_path: Path) -> None:
    history = History.at(tmp_path, value="avro")
    schemas = WriterSchemas(history.world.registry)
    history.payload = schemas.payload
    history.sent_at(("a", 1, 10), ("b", 1, 11))
    history.catch_up()
    schemas.widen()
    history.sent_at(("a", 2**40, 20))
    history.catch_up()

    history.check()
    columns = ["kafka_offset", "n", "more_0", "is_current"]
    rows = [
        row for part in history.world.lake.read(history.view, columns=columns, equal={}) for row in part.to_pylist()
    ]
    assert sorted(tuple(row[name] for name in columns) for row in rows) == [
        (0, 1, None, False),
        (1, 1, None, True),
        (2, 2**40, "0 of 1", True),
    ]
    assert history.against_kafka().findings == ()


@pytest.mark.parametrize("deleted", [0, 1])
def test_a_version_that_another_engine_deletes_changes_no_other_one(history: History, deleted: int) -> None:
    history.sent_at(("a", 1, 10), ("a", 2, 20), ("b", 1, 11))
    history.catch_up()
    history.world.lake.catalog.load_table(history.spec.identifier).delete(EqualTo("kafka_offset", deleted))
    history.sent_at(("a", 3, 30), ("b", None, 40))
    history.catch_up()

    left = [(0, 10, 20), (1, 20, 30)][1 - deleted]
    assert history.stored() == {"a": [left, (3, 30, None)], "b": [(2, 11, 40)]}
    assert history.verify().findings == ()
    assert history.against_kafka().findings == ()


Change = Callable[[pa.Table], pa.Table]


def seconds_of(column: str, offset: int, seconds: int) -> Change:
    def change(rows: pa.Table) -> pa.Table:
        index = rows.schema.get_field_index(column)
        moved = pa.scalar(seconds * 10**6, pa.int64()).cast(rows.schema.field(index).type)
        values = pc.if_else(pc.equal(rows["kafka_offset"], offset), moved, rows[column])
        return rows.set_column(index, rows.schema.field(index), values)

    return change


def nothing_is_current(rows: pa.Table) -> pa.Table:
    index = rows.schema.get_field_index("is_current")
    return rows.set_column(index, rows.schema.field(index), pa.array(np.zeros(len(rows), np.bool_)))


@pytest.mark.parametrize("most", [2, intervals.MOST_HELD])
@pytest.mark.parametrize(
    ("change", "named"),
    [
        (seconds_of("valid_to", 0, 25), [(2, "is valid after its valid_from")]),
        (seconds_of("valid_to", 2, 15), [(2, "valid_to is before valid_from")]),
        (
            seconds_of("valid_from", 0, 40),
            [(0, "of a later record"), (0, "valid_to is before"), (0, "valid after its")],
        ),
        (nothing_is_current, [(1, "is_current does not say"), (3, "is_current does not say")]),
    ],
)
def test_verify_names_a_wrong_interval(
    history: History, change: Change, named: list[tuple[int, str]], most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(intervals, "MOST_HELD", most)
    history.sent_at(("a", 1, 10), ("b", 1, 11), ("a", 2, 20), ("a", 3, 30))
    history.catch_up()
    history.replace_rows(change)

    found = [each for each in history.verify().findings if each.kind is FindingKind.WRONG_INTERVAL]

    assert sorted(each.offsets[0] for each in found) == sorted(offset for offset, _ in named)
    for offset, what in named:
        assert any(each.offsets == (offset,) and what in each.what for each in found)


def test_rows_are_compared_with_kafka_but_for_their_intervals(history: History) -> None:
    history.sent_at(("a", 1, 10), ("a", 2, 5), ("a", None, 30))
    history.catch_up()

    (kafka,) = (check for check in history.against_kafka().checks if check.name == "kafka")

    assert kafka.findings == ()
    assert kafka.says.startswith("3 records in Kafka: 2 are rows, equal in every column;")
    assert "1 deletes a key" in kafka.says
    history.replace_rows(seconds_of("kafka_timestamp", 0, 77))
    assert FindingKind.DIFFERENT_ROW in {each.kind for each in history.against_kafka().findings}


def test_a_row_may_end_at_a_delete_that_kafka_does_not_have_any_more(history: History) -> None:
    history.sent_at(("a", 1, 10), ("a", None, 30), ("a", 2, 40))
    history.catch_up()
    history.world.gone.add(1)

    found = history.against_kafka()

    assert found.findings == ()
    said = "1 row of a history may end at other records than Kafka has: 1 delete that Kafka does not have any more"
    assert any(note.startswith(said) for note in found.notes)


def test_kafka_names_a_row_that_ends_early(history: History) -> None:
    history.sent_at(("a", 1, 10), ("b", 1, 11), ("b", None, 30), ("a", 2, 40))
    history.catch_up()
    history.replace_rows(seconds_of("valid_to", 0, 20))

    found = history.against_kafka().findings

    assert [(each.kind, each.offsets) for each in found] == [(FindingKind.WRONG_INTERVAL, (0,))]


def test_verify_names_a_dropped_column(history: History) -> None:
    history.sent_at(("a", 1, 10))
    history.catch_up()
    with history.view.current.update_schema() as update:
        update.delete_column("valid_from")

    found = history.against_kafka().findings

    assert {each.kind for each in found} == {FindingKind.UNPROVABLE}
    assert "the table has no column valid_from" in found[0].what


def test_a_dropped_interval_pauses_the_table(history: History) -> None:
    history.sent_at(("a", 1, 10))
    history.catch_up()
    with history.view.current.update_schema() as update:
        update.delete_column("valid_to")
    history.sent_at(("a", 2, 20))

    with pytest.raises(IncompatibleSchemaError, match=r"valid_to.*was dropped by another tool"):
        history.catch_up()
