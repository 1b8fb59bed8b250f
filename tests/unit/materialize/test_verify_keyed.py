"""The proof of tables that follow keys: each damage is named, and any history without one is clean."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from changelogs import SENT, Changelog, Sent
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from keys_with_schemas import KeysWithSchemas

from frazil.materialize.pause.pausing import excluded_schemas_property
from frazil.model.schemas import ExcludedSchemas
from frazil.modes.identity import FIRST, SECOND
from frazil.modes.identity import identities as identities_of
from frazil.proof.verification import Check, FindingKind, Verification
from frazil.verify import by_identity, spilled
from tests.fakes.clients_in_memory import a_field
from tests.sampling import examples


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


def kafka(changelog: Changelog) -> list[tuple[FindingKind, str]]:
    return [(found.kind, str(found)) for found in check_of(changelog.against_kafka(), "kafka").findings]


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


def test_doubled_identities_are_found_without_room_for_a_temporary_file(
    changelog: Changelog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(by_identity, "MOST_HELD", 2)
    monkeypatch.setattr(spilled.SpilledIdentities, "finish", lambda _: False)
    changelog.replace_rows(lambda rows: pa.concat_tables([rows, rows]))

    assert [kind for kind, _ in identities(changelog)] == [FindingKind.DOUBLED_IDENTITY] * 3


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


def test_a_table_is_what_kafka_says(changelog: Changelog) -> None:
    changelog.send((None, 1), ("d", 1), ("c", None))
    changelog.catch_up()

    verification = changelog.against_kafka()

    assert (verification.findings, verification.notes) == ((), ())
    assert check_of(verification, "kafka").says == (
        "9 records in Kafka: 3 are rows, equal in every column; 1 is a dead letter, equal in key, value, headers,"
        " timestamp, schema and reason; 5 delete a key or were followed by another of their key; 0 were skipped"
        " according to the spec"
    )


@pytest.fixture(params=[2, 100])
def in_passes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hold so few keys at a time that Kafka is read several times, or all."""
    monkeypatch.setattr(by_identity, "MOST_HELD", request.param)


def without(rows: pa.Table, key: str) -> pa.Table:
    return rows.filter(pa.compute.not_equal(rows["kafka_key"], key))


def made(rows: pa.Table, key: str, offset: int, number: int) -> pa.Table:
    """Return the row that a record of the topic would be."""
    keys = pa.RecordBatch.from_pydict({"k": pa.array([key], pa.large_string())})
    identity = {half: identities_of(keys).column(half)[0].as_py() for half in (FIRST, SECOND)}
    values = {"value": json.dumps({"n": number}), "kafka_offset": offset, **identity}
    row = rows.slice(0, 1)
    return with_values(row, row["kafka_key"][0].as_py(), **values, kafka_key=key)


@pytest.mark.usefixtures("in_passes")
def test_a_lost_key_is_named(changelog: Changelog) -> None:
    changelog.replace_rows(lambda rows: pa.concat_tables([without(rows, "a"), made(rows, "b", 1, 2)]))

    what = "orders-0: missing: the row of 1 key, whose newest records in Kafka are offset 2"
    assert kafka(changelog) == [(FindingKind.LOST_KEY, what)]


@pytest.mark.usefixtures("in_passes")
def test_a_stale_version_is_named(changelog: Changelog) -> None:
    changelog.replace_rows(lambda rows: pa.concat_tables([without(rows, "a"), made(rows, "a", 0, 1)]))

    what = "orders-0@2: the row of the record's key is from offset 0, and the record is newer"
    assert kafka(changelog) == [(FindingKind.STALE_ROW, what)]


@pytest.mark.usefixtures("in_passes")
def test_a_deleted_key_that_is_there_is_named(changelog: Changelog) -> None:
    changelog.replace_rows(lambda rows: pa.concat_tables([rows, made(rows, "d", 3, 7)]))

    what = "orders-0@5: the row of the record's key is from offset 3, and the record deletes it"
    assert kafka(changelog) == [(FindingKind.DELETED_KEY, what)]


def test_a_row_made_of_a_delete_is_named(changelog: Changelog) -> None:
    changelog.replace_rows(lambda rows: pa.concat_tables([rows, made(rows, "d", 5, 7)]))

    what = "orders-0@5: a row in the table, but the record deletes the row of its key"
    assert kafka(changelog) == [(FindingKind.DIFFERENT_ROW, what)]


def test_another_value_than_that_of_the_record_is_named(changelog: Changelog) -> None:
    changelog.replace_rows(lambda rows: with_values(rows, "b", value="{}"))

    what = """orders-0@1: column value: '{}' in the table, '{"n": 2}' in Kafka"""
    assert kafka(changelog) == [(FindingKind.DIFFERENT_ROW, what)]


def test_another_identity_than_that_of_the_record_is_named(changelog: Changelog) -> None:
    changelog.replace_rows(lambda rows: with_values(rows, "b", **{FIRST: 5}))

    ((kind, what),) = kafka(changelog)
    assert (kind, what[:42]) == (FindingKind.DIFFERENT_ROW, "orders-0@1: column frazil_identity_1: 5 in")


def test_a_dead_letter_that_is_lost_is_a_missing_record(changelog: Changelog) -> None:
    changelog.send((None, 1))
    changelog.catch_up()
    dead = changelog.world.lake.catalog.load_table(changelog.spec.dead_letters_identifier)
    dead.delete("offset = 6")

    assert [kind for kind, _ in kafka(changelog)] == [FindingKind.MISSING_RECORD]


def test_rows_that_others_removed_explain_lost_keys(changelog: Changelog) -> None:
    changelog.replace_rows(lambda rows: without(rows, "a"))
    changelog.send(("e", 1))
    changelog.catch_up()

    verification = changelog.against_kafka()

    what = "orders-0: missing: the row of 1 key, whose newest records in Kafka are offset 2"
    assert verification.findings == ()
    assert f"{what}; removals by other writers explain the number; unchecked: they may be others" in verification.notes


def test_rows_whose_records_retention_deleted_are_unchecked(changelog: Changelog) -> None:
    changelog.world.earliest = 3

    verification = changelog.against_kafka()

    assert verification.findings == ()
    assert verification.notes == (
        "orders-0: Kafka no longer has offsets [0, 3) of [0, 6): only the table's own proof covers them; unchecked:"
        " 2 keys with a row from there",
    )


def test_rows_whose_records_were_compacted_are_unchecked(changelog: Changelog) -> None:
    changelog.send(("a", 9), ("c", None))
    changelog.compact(tombstones=True)
    changelog.replace_rows(lambda rows: pa.concat_tables([without(rows, "b"), made(rows, "b", 0, 1)]))

    ((kind, what),) = kafka(changelog)

    assert (kind, what[:11]) == (FindingKind.STALE_ROW, "orders-0@1:")
    assert any("unchecked" in note for note in changelog.against_kafka().notes)


STEPS = st.lists(st.lists(SENT, min_size=1, max_size=8) | st.sampled_from(["read", "compact", "expire"]), max_size=8)


@settings(max_examples=examples(6, 150), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=STEPS, most=st.sampled_from([2, 3, 100]))
def test_any_history_is_clean(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, steps: list[list[Sent] | str], most: int
) -> None:
    monkeypatch.setattr(by_identity, "MOST_HELD", most)
    changelog = Changelog.at(tmp_path)
    world = changelog.world
    changelog.catch_up()
    for step in [*steps, "read"]:
        if isinstance(step, list):
            changelog.send(*step)
        elif step == "read":
            changelog.catch_up()
        elif step == "expire":
            world.earliest = changelog.next_offset
        else:
            changelog.compact(tombstones=len(world.values) % 2 == 0)
        verification = changelog.against_kafka()
        assert verification.findings == ()


@pytest.fixture
def with_schemas(tmp_path: Path) -> KeysWithSchemas:
    return KeysWithSchemas.at(tmp_path)


def test_a_field_of_the_key_may_have_another_name(with_schemas: KeysWithSchemas) -> None:
    assert with_schemas.changelog.against_kafka().findings == ()


def test_dead_letters_may_have_a_key_that_the_table_cannot_hold(with_schemas: KeysWithSchemas) -> None:
    changelog = with_schemas.changelog
    other = with_schemas.register(a_field("number"), a_field("region", ["null", "string"]))
    changelog.world.lake.set_properties(
        changelog.spec.identifier, put=excluded_schemas_property(ExcludedSchemas(keys=frozenset({other})))
    )
    with_schemas.send(other, {"number": 1, "region": "x"}, 5)
    changelog.catch_up()

    verification = changelog.against_kafka()

    assert verification.findings == ()
    assert verification.counts.dead_letters == 1
