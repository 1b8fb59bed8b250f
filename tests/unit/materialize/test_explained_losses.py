"""A cause explains as many missing records as can be its own, and no lost record."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from test_letters_against_kafka import TEXT, letters, published, verified
from test_specs_of_earlier_records import applied
from values_of_tables import NOW
from whole_batches import LONG, World, framed

from frazil.adapters.iceberg.lake import IcebergLake
from frazil.adapters.iceberg.sought_value import sought_in
from frazil.forget.perform import Erasure
from frazil.materialize import without_rows
from frazil.materialize.changed_spec.applied_spec import spec_property
from frazil.model.settings import CatalogSettings
from frazil.model.spec import TableSpec

SKIP = letters(on_bad_record="skip")


@pytest.fixture
def world(tmp_path: Path) -> World:
    made = World(IcebergLake(CatalogSettings("jdbc", str(tmp_path / "warehouse"))))
    made.registry.register("orders-value", TEXT)
    return made


def text(n: int) -> bytes:
    return framed(1, TEXT, {"n": n, "text": f"name.{n}"})


def missing(*offsets: int) -> str:
    count = "1 record" if len(offsets) == 1 else f"{len(offsets)} records"
    listed = ("offset " if len(offsets) == 1 else "offsets ") + ", ".join(map(str, offsets))
    return f"orders-0: missing: {count} in Kafka (not a row, a dead letter or skipped): {listed}"


def losing(world: World, lost: Sequence[int], wanted: TableSpec, *values: Any) -> TableSpec:
    """Publish records but some, which ingest never sees."""
    world.gone = {*lost}
    published(world, wanted, *values)
    world.gone = set()
    return wanted


def retained(world: World, earliest: int) -> None:
    """Let Kafka delete the records before an offset."""
    world.earliest, world.gone = earliest, {*world.gone, *range(earliest)}


def erase(world: World, wanted: TableSpec, *numbers: int) -> None:
    for n in numbers:
        view = world.lake.load(wanted.identifier)
        assert view is not None
        sought = sought_in(view, "text", f"name.{n}")
        Erasure(world.lake, wanted, sought, "t", lambda: NOW, lambda: uuid.uuid4().hex).perform()


def findings(world: World, wanted: TableSpec) -> list[str]:
    return [str(each) for each in verified(world, wanted).findings]


def test_skipped_records_that_are_gone_explain_no_lost_record_that_could_not_be_skipped(world: World) -> None:
    losing(world, [3], SKIP, b"bad", b"bad", text(2), text(3), text(4))

    retained(world, 2)

    assert findings(world, SKIP) == [missing(3)]


def test_skipped_records_of_a_schema_that_is_known_since_are_explained(world: World) -> None:
    later = framed(2, TEXT, {"n": 1, "text": "a"})
    published(world, SKIP, text(0), later, later, text(3))
    world.registry.register("other-value", TEXT.replace('"text"', '"other"'))
    retained(world, 1)
    world.gone.add(1)

    result = verified(world, SKIP)

    assert [str(each) for each in result.findings] == []
    assert any("missing: 1 record" in note and "unchecked" in note for note in result.notes), result.notes
    assert "1 is unchecked" in next(check.says for check in result.checks if check.name == "kafka")


def test_skipped_records_whose_key_has_a_schema_that_is_known_since_are_explained(world: World) -> None:
    wanted = letters(on_bad_record="skip", key="avro")
    world.registry.register("orders-key", LONG)
    world.keys |= {0: framed(2, LONG, {"n": 5}), 1: framed(3, LONG, {"n": 5}), 2: framed(3, LONG, {"n": 5})}
    published(world, wanted, *map(text, range(3)))
    world.registry.register("other-key", LONG.replace('"n"', '"m"'))
    world.gone.add(1)

    assert verified(world, wanted).counts.skipped == 2
    assert findings(world, wanted) == []


@pytest.mark.parametrize("erased", [[0], [0, 1]])
def test_an_erased_row_whose_record_is_gone_explains_no_lost_record(world: World, erased: list[int]) -> None:
    wanted = losing(world, [3], letters(), *map(text, range(5)))
    erase(world, wanted, *erased)
    assert findings(world, wanted) == [missing(*erased, 3)]

    retained(world, 1)

    assert findings(world, wanted) == [missing(*erased[1:], 3)]


@pytest.mark.parametrize("earliest", [0, 1, 2, 3])
def test_erased_rows_are_explained_whichever_are_gone(world: World, earliest: int) -> None:
    wanted = published(world, letters(), *map(text, range(5)))
    erase(world, wanted, 0, 1, 3)

    retained(world, earliest)

    assert findings(world, wanted) == []


@pytest.mark.parametrize("earliest", [0, 1])
def test_rows_that_an_earlier_release_erased_are_explained_by_their_number(
    world: World, earliest: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its state has no sums of their offsets, also after others are erased."""
    wanted = published(world, letters(), *map(text, range(5)))
    now = without_rows._without
    with monkeypatch.context() as earlier:
        earlier.setattr(without_rows, "_without", lambda *given: replace(now(*given), forgotten_sums=None))
        erase(world, wanted, 0, 1)
    assert findings(world, wanted) == []
    erase(world, wanted, 3)
    retained(world, earliest)

    assert findings(world, wanted) == []


def test_an_erased_row_and_an_erased_dead_letter_explain_each_other_no_lost_record(world: World) -> None:
    wanted = losing(world, [3], letters(), text(0), text(1) + b"!", text(2), text(3), text(4))
    erase(world, wanted, 0, 1)

    retained(world, 1)

    assert findings(world, wanted) == [missing(1, 3)]


@pytest.mark.parametrize(
    ("lost", "before", "after"),
    [
        (None, {"on_tombstone": "row"}, {"on_tombstone": "skip"}),
        (b"bad", {"on_bad_record": "dead_letter"}, {"on_bad_record": "skip"}),
    ],
)
def test_a_lost_record_is_not_skipped_where_the_table_has_counted_none(
    world: World, lost: bytes | None, before: dict[str, Any], after: dict[str, Any]
) -> None:
    """An earlier release has not kept how the spec of its time was."""
    losing(world, [1], letters(**before), text(0), lost, text(2))
    wanted = published(world, letters(**after), text(3))
    unknown = replace(applied(world, wanted), earlier=())
    world.lake.set_properties(wanted.identifier, put=spec_property(unknown))

    (finding,) = findings(world, wanted)

    assert finding == (
        "orders-0: missing: 1 record in Kafka (not a row, a dead letter or skipped): among the 1 that the spec skips"
        " now, of which the table has counted 0 as skipped: offset 1"
    )
