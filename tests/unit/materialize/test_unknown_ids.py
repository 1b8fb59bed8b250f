"""A value without a frame leaves none of its bytes in an encrypted dead letter, as what looks like a schema's id."""

from __future__ import annotations

from typing import Any, cast

import pytest
from policed_tables import HASH, LETTER_KEY, masked
from test_policies import ANNA, PERSON, letters, published, verified, world
from whole_batches import World, framed

from frazil.dead_letters import decrypted_letter, list_dead_letters
from frazil.model.spec import WireFormat
from frazil.peek import peek

__all__ = ("world",)


@pytest.mark.parametrize(
    ("wire_format", "value"), [("confluent", b"\0Anna Smith"), ("glue", b"\3\0Anna Smith, 1 Main Street")]
)
def test_a_value_without_a_frame_does_not_become_the_id_of_a_schema(
    world: World, wire_format: WireFormat, value: bytes
) -> None:
    world.registry.register("orders-value", PERSON)
    bad = framed(1, PERSON, ANNA)[:-3]
    named = [1] if wire_format == "confluent" else []
    policies = {"email": HASH}
    table = published(world, masked(policies, wire_format=wire_format), value, *([bad] if named else []))

    found = letters(world, table)
    assert [(each["schema_id"], each["schema_uuid"]) for each in found] == [(None, None), *((n, None) for n in named)]
    (*_, first) = list_dead_letters(world.lake, table, limit=5).newest
    assert "the registry has no schema with the id" in str(decrypted_letter(first, LETTER_KEY).detail)
    facts = world.topics.describe("orders")
    assert facts is not None
    peeked = peek(cast(Any, world), world.registry, facts, 9, spec=table)
    assert [each.schema_id for each in peeked] == [None, *named]
    assert verified(world, table).clean
