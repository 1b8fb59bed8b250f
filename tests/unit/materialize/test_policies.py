"""Column policies over whole batches: what tables hold, what verify proves, and what is refused."""

from __future__ import annotations

import base64
import hmac
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from policed_tables import DROP, HASH, HASH_BYTES, KEEP, LETTER_KEY, REDACT, masked, truncate
from values_of_tables import spec
from whole_batches import World, framed

from frazil.adapters.iceberg.lake import IcebergLake
from frazil.dead_letters import decrypted_letter, list_dead_letters
from frazil.materialize.hash_key import HASH_KEY_PROPERTY
from frazil.materialize.outcome import Published
from frazil.materialize.preview.explain import explain, lines
from frazil.model.errors import IncompatibleSchemaError, SettingError, SpecChangeError, SpecError
from frazil.model.masked import MASKED_PROPERTY
from frazil.model.policed import policed
from frazil.model.policies import NO_POLICIES, Policy
from frazil.model.secret import NamedKey, Secret
from frazil.model.settings import CatalogSettings
from frazil.model.spec import MetadataColumns, TableSpec
from frazil.proof.verification import Verification
from frazil.verify.against_kafka import KafkaSide
from frazil.verify.table import verify_table

PERSON = json.dumps(
    {
        "type": "record",
        "name": "Person",
        "fields": [
            {"name": "id", "type": "int"},
            {"name": "email", "type": ["null", "string"], "confluent:tags": ["PII"]},
            {"name": "ssn", "type": "string"},
            {"name": "phones", "type": {"type": "array", "items": "string"}},
            {
                "name": "address",
                "type": {
                    "type": "record",
                    "name": "Address",
                    "fields": [{"name": "street", "type": "string"}, {"name": "city", "type": "string"}],
                },
            },
            {"name": "notes", "type": {"type": "map", "values": "string"}},
        ],
    }
)
ANNA: dict[str, Any] = {
    "id": 7,
    "email": "anna@example.com",
    "ssn": "123-45",
    "phones": ["+351 1", "+351 2"],
    "address": {"street": "Rua 1", "city": "Lisboa"},
    "notes": {"a": "secret note"},
}
POLICIES = {
    "email": HASH,
    "ssn": DROP,
    "phones[]": truncate(4),
    "address.street": REDACT,
    "notes{}": HASH,
    "id": HASH,
}


def hashed(value: str) -> str:
    return hmac.new(HASH_BYTES, value.encode(), "sha256").hexdigest()[:32]


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(IcebergLake(CatalogSettings("jdbc", str(tmp_path / "warehouse"))))


def published(world: World, wanted: TableSpec, *values: Any) -> TableSpec:
    world.values += list(values)
    assert isinstance(world.table(wanted).batch(), Published)
    return wanted


def rows(world: World, wanted: TableSpec) -> list[dict[str, Any]]:
    view = world.lake.load(wanted.identifier)
    assert view is not None
    found: list[dict[str, Any]] = view.current.scan().to_arrow().sort_by("kafka_offset").to_pylist()
    return found


def verified(world: World, wanted: TableSpec) -> Verification:
    return verify_table(world.lake, wanted, kafka=KafkaSide(world.topics, cast(Any, world), world.registry))


def test_values_are_masked_as_the_policies_say_and_verify_compares_them_with_kafka(world: World) -> None:
    world.registry.register("orders-value", PERSON)
    table = published(
        world, masked(POLICIES), framed(1, PERSON, ANNA), None, framed(1, PERSON, {**ANNA, "email": None})
    )

    first, tombstone, second = rows(world, table)
    assert {name: first[name] for name in first if not name.startswith("kafka_")} == {
        "id": hashed("7"),
        "email": hashed("anna@example.com"),
        "phones": ["+351", "+351"],
        "address": {"street": "[redacted]", "city": "Lisboa"},
        "notes": [("a", hashed("secret note"))],
    }
    assert (tombstone["email"], second["email"], second["id"]) == (None, None, hashed("7"))
    assert verified(world, table).clean
    view = world.lake.load(table.identifier)
    assert view is not None
    assert json.loads(view.properties[MASKED_PROPERTY]) == {
        "address.street": "redact",
        "email": "hash",
        "id": "hash",
        "notes": "hash",
        "phones": "truncate to 4",
    }


def test_verify_finds_a_row_whose_mask_was_replaced_by_the_value(world: World) -> None:
    world.registry.register("orders-value", PERSON)
    table = published(world, masked({"email": HASH}), framed(1, PERSON, ANNA))
    loaded = world.lake.catalog.load_table(table.identifier)
    held = loaded.scan().to_arrow()
    at = held.column_names.index("email")
    loaded.overwrite(held.set_column(at, held.field(at), [["anna@example.com"]]))

    findings = [str(each.what) for check in verified(world, table).checks for each in check.findings]

    assert any("column email" in each for each in findings)
    assert not any("anna@" in each for each in findings)


def test_tags_of_the_schema_have_policies_and_a_path_takes_precedence(world: World) -> None:
    world.registry.register("orders-value", PERSON)
    by_tag = published(world, masked({}, {"PII": HASH}, table="by_tag"), framed(1, PERSON, ANNA))
    by_path = masked({"email": KEEP}, {"PII": HASH}, table="by_path")
    assert isinstance(world.table(by_path).batch(), Published)

    assert (rows(world, by_tag)[0]["email"], rows(world, by_tag)[0]["ssn"]) == (hashed("anna@example.com"), "123-45")
    assert rows(world, by_path)[0]["email"] == "anna@example.com"
    assert verified(world, by_tag).clean


def test_a_schema_that_takes_the_tag_away_pauses_the_table_and_nothing_leaks(world: World) -> None:
    world.registry.register("orders-value", PERSON)
    table = published(world, masked({}, {"PII": HASH}), framed(1, PERSON, ANNA))
    untagged = PERSON.replace(', "confluent:tags": ["PII"]', "").replace('"Person"', '"Person"')
    later = world.registry.register("orders-value", untagged.replace('"name": "id"', '"doc": "x", "name": "id"'))

    world.values.append(framed(later.id, PERSON, ANNA))
    with pytest.raises(IncompatibleSchemaError, match=r"email: has no policy, but the values .* are hash"):
        world.table(table).batch()


def test_a_renamed_field_keeps_the_policy_of_its_old_name(world: World) -> None:
    world.registry.register("orders-value", PERSON)
    table = published(world, masked({"email": HASH}), framed(1, PERSON, ANNA))
    renamed = PERSON.replace('"name": "email"', '"name": "mail", "aliases": ["email"]')
    later = world.registry.register("orders-value", renamed)
    value = {**ANNA, "mail": "bob@example.com"}
    value.pop("email")
    published(world, table, framed(later.id, renamed, value))

    assert [each["mail"] for each in rows(world, table)] == [hashed("anna@example.com"), hashed("bob@example.com")]
    assert verified(world, table).clean


def test_an_alias_of_an_alias_cannot_unmask_a_column(world: World) -> None:
    """The policy names `email`; the newest schema knows only `mail` as a former name."""
    world.registry.register("orders-value", PERSON)
    table = published(world, masked({"email": HASH}), framed(1, PERSON, ANNA))
    for old, new in (("email", "mail"), ("mail", "contact")):
        text = PERSON.replace('"name": "email"', f'"name": "{new}", "aliases": ["{old}"]')
        later = world.registry.register("orders-value", text)
        value = {**ANNA, new: "bob@example.com"}
        value.pop("email")
        world.values.append(framed(later.id, text, value))
        if new == "mail":
            world.table(table).batch()

    with pytest.raises(IncompatibleSchemaError, match="contact: has no policy, but the values"):
        world.table(table).batch()


@pytest.mark.parametrize(
    ("policies", "problem"),
    [
        ({"notes": HASH}, r"notes: is a map, whose keys cannot be masked: drop it, or mask its values, notes\{\}"),
        ({"id": truncate(2)}, "id: has the type int, and only texts and bytes can be truncated"),
        ({"phones[]": DROP}, r"phones\[\]: cannot be dropped without what holds it"),
        ({"address.street": DROP, "address.city": DROP}, "address: every field of it is dropped"),
    ],
)
def test_a_policy_that_cannot_mask_a_column_makes_no_table(
    world: World, policies: dict[str, Any], problem: str
) -> None:
    world.registry.register("orders-value", PERSON)
    world.values.append(framed(1, PERSON, ANNA))

    with pytest.raises(IncompatibleSchemaError, match=problem):
        world.table(masked(policies)).batch()
    assert any(re.search(problem, each.what) for each in world.check(masked(policies)))


def test_a_policy_of_a_column_that_no_schema_has_makes_no_table(world: World) -> None:
    world.registry.register("orders-value", PERSON)
    wanted = masked({"emial": HASH, "address.strete": DROP})

    with pytest.raises(
        SpecError, match=r"columns: no schema has address\.strete, emial, so the policy would mask nothing"
    ):
        world.table(wanted).batch()
    assert any("no schema has" in each.what for each in world.check(wanted))


def test_the_policies_of_an_existing_table_cannot_change(world: World) -> None:
    world.registry.register("orders-value", PERSON)
    published(world, masked({"email": HASH}), framed(1, PERSON, ANNA))

    for changed in (masked({"email": REDACT}), masked({}), spec(metadata=masked({"email": HASH}).metadata)):
        with pytest.raises(SpecChangeError, match="existing rows keep the masks"):
            world.table(changed).batch()
    assert verified(world, masked({"email": HASH})).clean


def test_explain_shows_masks(world: World) -> None:
    world.registry.register("orders-value", PERSON)

    shown = list(lines(explain(world.table(masked({"email": HASH, "ssn": truncate(3)})))))

    assert "  new table: email: string, masked: hash" in shown
    assert "  new table: ssn: string, masked: truncate to 3" in shown


def test_a_json_text_needs_a_policy_of_its_own(world: World) -> None:
    wanted = masked({"name": HASH}, value="json_schema", partition_by=())
    text = json.dumps({"type": "object", "properties": {"name": {"type": "string"}, "any": {}}})
    world.registry.register("orders-value", text, schema_format="JSON")

    with pytest.raises(IncompatibleSchemaError, match=r"(?s)any: is JSON text, which may hold .*_extra: is JSON text"):
        world.table(wanted).batch()

    covered = masked({"name": HASH, "any": DROP, "_extra": DROP}, value="json_schema", partition_by=())
    published(world, covered, b"\0\0\0\0\1" + b'{"name": "Anna", "any": 1, "other": "Anna"}')
    (row,) = rows(world, covered)
    assert (row["name"], "any" in row, "_extra" in row) == (hashed("Anna"), False, False)
    assert verified(world, covered).clean


def test_a_key_is_kept_only_with_a_policy(world: World) -> None:
    world.registry.register("orders-value", PERSON)
    kept = MetadataColumns(keep=("partition", "offset", "timestamp", "key"))
    table = masked({"email": HASH, "kafka_key": HASH}, metadata=kept)
    world.keys = {0: b"anna@example.com", 1: b"\xff"}
    published(world, table, framed(1, PERSON, ANNA), framed(1, PERSON, ANNA))

    assert [each["kafka_key"] for each in rows(world, table)] == [hashed("anna@example.com")]
    assert verified(world, table).clean


def with_hash_key(table: TableSpec, key: NamedKey) -> TableSpec:
    return policed(
        replace(table, policies=NO_POLICIES),
        replace(table.policies, hash_key=key.id),
        hash_key=key,
        dead_letter_key=LETTER_KEY,
    )


OTHER_KEY = NamedKey("h1", Secret(base64.b64encode(bytes(range(1, 33))).decode()))


def test_another_hash_key_under_the_same_id_is_refused_and_changes_nothing(world: World) -> None:
    world.registry.register("orders-value", PERSON)
    table = published(world, masked({"email": HASH}), framed(1, PERSON, ANNA))
    view = world.lake.load(table.identifier)
    assert view is not None
    recorded = json.loads(view.properties[HASH_KEY_PROPERTY])
    assert recorded == {"id": "h1", "fingerprint": hmac.new(HASH_BYTES, b"frazil hash_key", "sha256").hexdigest()[:32]}

    world.values.append(framed(1, PERSON, ANNA))
    changed = with_hash_key(table, OTHER_KEY)
    refused = "lake.orders: the hash_key h1 is not the key of the table's hashes: its fingerprint is"
    with pytest.raises(SettingError, match=refused):
        world.table(changed).batch()
    with pytest.raises(SettingError, match=refused):
        verified(world, changed)
    published(world, table)
    assert [each["email"] for each in rows(world, table)] == [hashed("anna@example.com")] * 2


def test_another_id_of_the_hash_key_is_refused_by_batches_and_by_verify(world: World) -> None:
    world.registry.register("orders-value", PERSON)
    table = published(world, masked({"email": HASH}), framed(1, PERSON, ANNA))
    changed = with_hash_key(table, NamedKey("h2", OTHER_KEY.secret))

    with pytest.raises(SpecChangeError, match="existing rows, made with the key h1") as refused:
        world.table(changed).batch()
    assert refused.value.hint == (
        f"restore `policies.hash_key` in frazil.yaml, or run `frazil rebuild {table.identifier}`, which reads the topic"
        " again by the changed spec"
    )
    with pytest.raises(SettingError, match="were made with the hash_key h1, which is not configured"):
        verified(world, changed)


def test_a_table_of_before_records_its_hash_key_with_the_next_batch(world: World) -> None:
    world.registry.register("orders-value", PERSON)
    table = published(world, masked({"email": HASH}), framed(1, PERSON, ANNA))
    world.lake.set_properties(table.identifier, put={}, remove=(HASH_KEY_PROPERTY,))

    published(world, table, framed(1, PERSON, ANNA))

    with pytest.raises(SettingError, match="is not the key of the table's hashes"):
        world.values.append(framed(1, PERSON, ANNA))
        world.table(with_hash_key(table, OTHER_KEY)).batch()


def letters(world: World, wanted: TableSpec) -> list[dict[str, Any]]:
    view = world.lake.load(wanted.dead_letters_identifier)
    assert view is not None
    found: list[dict[str, Any]] = view.current.scan().to_arrow().sort_by("offset").to_pylist()
    return found


def test_dead_letters_are_encrypted_and_only_their_key_opens_them(world: World) -> None:
    world.registry.register("orders-value", PERSON)
    world.keys = {0: b"the key of Anna"}
    bad = framed(1, PERSON, ANNA)[:-3]
    table = published(world, masked({"email": HASH}), bad, framed(1, PERSON, ANNA))

    (stored,) = letters(world, table)
    assert (stored["reason"], stored["schema_id"], stored["offset"]) == ("bad_length", 1, 0)
    assert stored["detail"].startswith("encrypted:d1:")
    assert not any(b"Anna" in stored[name] or b"anna" in stored[name] for name in ("key", "value"))

    (letter,) = list_dead_letters(world.lake, table, limit=5).newest
    shown = decrypted_letter(letter, LETTER_KEY)
    assert (shown.key, shown.value) == (b"the key of Anna", bad)
    assert verified(world, table).clean


def test_another_key_opens_no_dead_letter(world: World) -> None:
    world.registry.register("orders-value", PERSON)
    table = published(world, masked({"email": HASH}), b"not framed")
    (letter,) = list_dead_letters(world.lake, table, limit=5).newest
    other = Secret("A" * 43 + "=")

    for key, why in (
        (None, "is encrypted with the key d1, and no dead_letter_key is configured"),
        (NamedKey("d2", other), "the configured dead_letter_key is d2"),
        (NamedKey("d1", other), "the column `value` of .* cannot be decrypted with the dead_letter_key d1"),
        (NamedKey("d1", Secret("short")), "the key d1 is not 32 bytes in base64: it is not base64"),
        (NamedKey("d1", Secret("c2hvcnQ=")), "the key d1 is not 32 bytes in base64: it has 5 bytes"),
    ):
        with pytest.raises(SettingError, match=why):
            decrypted_letter(letter, key)


def test_a_letter_that_was_moved_to_another_offset_does_not_open(world: World) -> None:
    world.registry.register("orders-value", PERSON)
    table = published(world, masked({"email": HASH}), b"not framed")
    (letter,) = list_dead_letters(world.lake, table, limit=5).newest

    with pytest.raises(SettingError, match="orders-0@9 cannot be decrypted"):
        decrypted_letter(replace(letter, offset=9), LETTER_KEY)


@pytest.mark.parametrize(
    ("columns", "tags", "found"),
    [
        (
            {"email": REDACT},
            {},
            "email: is a part of the identity, and has the mask redact: different keys become equal",
        ),
        (
            {"email": truncate(2)},
            {},
            "email: is a part of the identity, and has the mask truncate to 2: different keys",
        ),
        ({}, {"PII": REDACT}, "email: is a part of the identity, and has the mask redact: different keys become equal"),
        ({"email": DROP}, {}, "email names a column that the table does not have"),
    ],
    ids=["redact", "truncate", "redact by tag", "drop"],
)
def test_a_policy_that_makes_keys_equal_is_refused(
    tmp_path: Path, columns: dict[str, Policy], tags: dict[str, Policy], found: str
) -> None:
    world = World(IcebergLake(CatalogSettings("jdbc", str(tmp_path))))
    world.registry.register("orders-value", PERSON)
    world.values.append(framed(1, PERSON, ANNA))
    wanted = masked(columns, tags, write="deduplicate", identity=("email",), on_tombstone="dead_letter")

    with pytest.raises(SpecError) as refused:
        world.table(wanted).batch()

    assert found in refused.value.what
    assert world.lake.load(wanted.identifier) is None
