"""The proof of tables that follow keys: each damage is named, and any history without one is clean."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from changelogs import Changelog

from frazil.modes.identity import FIRST, SECOND
from frazil.proof.verification import Check, FindingKind, Verification
from frazil.verify import by_identity


@pytest.fixture
def changelog(tmp_path: Path) -> Changelog:
    """Rows of a (offset 2), b (1) and c (4); d was deleted."""
    made = Changelog.at(tmp_path)
    made.send(("a", 1), ("b", 2), ("a", 3))
    made.catch_up()
    made.send(("d", 7), ("c", 4), ("d", None))
    made.catch_up()
    return made


def with_values(rows: pa.Table, key: str, **values: Any) -> pa.Table:
    """Return the rows with other values in the row of a key."""
    at = rows["kafka_key"].to_pylist().index(key)
    for name, value in values.items():
        index = rows.schema.get_field_index(name)
        changed = [*rows[name].to_pylist()]
        changed[at] = value
        rows = rows.set_column(index, rows.schema.field(index), pa.array(changed, rows.schema.field(index).type))
    return rows


def row_of(rows: pa.Table, key: str) -> pa.Table:
    return rows.filter(pa.compute.equal(rows["kafka_key"], key))


def check_of(verification: Verification, name: str) -> Check:
    (check,) = [each for each in verification.checks if each.name == name]
    return check


def identities(changelog: Changelog) -> list[tuple[FindingKind, str]]:
    return [(found.kind, str(found)) for found in check_of(changelog.verify(), "identities").findings]


def test_the_identities_of_a_table_are_those_of_its_keys(changelog: Changelog) -> None:
    check = check_of(changelog.verify(), "identities")

    assert (check.findings, check.notes) == ((), ())
    assert check.says == "3 rows: each has the identity of its key, and no other row has"


@pytest.mark.parametrize("most", [2, 100])
def test_a_doubled_identity_is_named(changelog: Changelog, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(by_identity, "MOST_HELD", most)
    changelog.replace_rows(lambda rows: pa.concat_tables([rows, with_values(row_of(rows, "a"), "a", kafka_offset=0)]))

    found = [(kind, text) for kind, text in identities(changelog)]

    assert len(found) == 1
    assert found[0][0] is FindingKind.DOUBLED_IDENTITY
    assert found[0][1] in (
        "kafka_key 'a': 2 rows of one identity: offsets 2, 0",
        "kafka_key 'a': 2 rows of one identity: offsets 0, 2",
    )


def test_only_the_first_doubled_identities_are_named(changelog: Changelog) -> None:
    changelog.send(*((str(n), n) for n in range(30)))
    changelog.catch_up()
    changelog.replace_rows(lambda rows: pa.concat_tables([rows, rows]))

    found = identities(changelog)

    assert len(found) == 21
    assert found[-1][1] == "table: 13 more identities have several rows"


def test_two_identities_with_the_same_first_half_are_two(changelog: Changelog) -> None:
    def collide(rows: pa.Table) -> pa.Table:
        return with_values(with_values(rows, "a", **{FIRST: 5, SECOND: 1}), "b", **{FIRST: 5, SECOND: 2})

    changelog.replace_rows(collide)

    assert {kind for kind, _ in identities(changelog)} == {FindingKind.CHANGED_IDENTITY}


@pytest.mark.parametrize("half", [FIRST, SECOND])
def test_another_identity_than_that_of_the_key_is_named(changelog: Changelog, half: str) -> None:
    changelog.replace_rows(lambda rows: with_values(rows, "b", **{half: 5}))

    what = "orders-0: 1 row with another identity than that of kafka_key: offset 1"
    assert identities(changelog) == [(FindingKind.CHANGED_IDENTITY, what)]


def test_a_changed_key_does_not_have_its_identity(changelog: Changelog) -> None:
    changelog.replace_rows(lambda rows: with_values(rows, "b", kafka_key="e"))

    assert [kind for kind, _ in identities(changelog)] == [FindingKind.CHANGED_IDENTITY]


def test_a_row_without_an_identity_is_named(changelog: Changelog) -> None:
    changelog.replace_rows(lambda rows: with_values(rows, "b", **{FIRST: None}))

    assert identities(changelog) == [(FindingKind.NO_IDENTITY, "orders-0: 1 row without an identity: offset 1")]


def test_a_row_that_another_engine_inserted_openly_needs_no_identity(changelog: Changelog) -> None:
    nothing = dict.fromkeys((FIRST, SECOND, "kafka_partition", "kafka_offset"))
    loaded = changelog.world.lake.catalog.load_table(changelog.spec.identifier)
    loaded.append(with_values(row_of(loaded.scan().to_arrow(), "a"), "a", **nothing))

    assert changelog.verify().findings == ()


def test_a_lost_identity_column_is_named(changelog: Changelog) -> None:
    with changelog.world.lake.catalog.load_table(changelog.spec.identifier).update_schema() as update:
        update.delete_column(SECOND)

    what = f"{changelog.spec.identifier}: the table has no column {SECOND}: rows have no identity without it"
    assert identities(changelog) == [(FindingKind.UNPROVABLE, what)]
