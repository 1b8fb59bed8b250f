"""Which decoder reads an id, and how often a registry is asked for those that it does not have."""

from __future__ import annotations

import pytest

from frazil.materialize.ingest.decoders import (
    LARGEST_ID,
    LOOKUPS_PER_TASK,
    LookupsSpentError,
    NewSchemaError,
    SchemasById,
    TaskDecoders,
    UnknownIds,
)
from frazil.model.dead_letter import Reason
from frazil.model.errors import RegistryError
from tests.fakes.clients_in_memory import RegistryInMemory, a_field, record


@pytest.fixture
def registry() -> RegistryInMemory:
    made = RegistryInMemory()
    made.register("a", record(a_field("n")))
    made.register("b", "{}", schema_format="JSON")
    return made


def writers(registry: RegistryInMemory, *known: int) -> TaskDecoders:
    return TaskDecoders(SchemasById("avro", {i: registry.schemas[i] for i in known}, UnknownIds(registry)))


def test_a_schema_of_the_plan_is_opened_once_and_never_asked_for(registry: RegistryInMemory) -> None:
    known = writers(registry, 1)

    assert known.decoder(1) is known.decoder(1)
    assert registry.asked == []


def test_a_valid_id_that_the_plan_does_not_know_has_to_wait(registry: RegistryInMemory) -> None:
    with pytest.raises(NewSchemaError) as new:
        writers(registry).decoder(1)

    assert new.value.schema_id == 1


def test_ids_that_do_not_exist_and_other_formats_are_asked_for_once(registry: RegistryInMemory) -> None:
    known = writers(registry)

    answers = [known.decoder(i) for i in (9, 2, 9, 2, LARGEST_ID + 1)]

    assert answers == [
        Reason.UNKNOWN_SCHEMA_ID,
        Reason.WRONG_SCHEMA_TYPE,
        Reason.UNKNOWN_SCHEMA_ID,
        Reason.WRONG_SCHEMA_TYPE,
        Reason.UNKNOWN_SCHEMA_ID,
    ]
    assert registry.asked == [9, 2]


def test_a_registry_that_is_down_is_never_taken_for_an_id_that_does_not_exist(registry: RegistryInMemory) -> None:
    registry.down = True

    with pytest.raises(RegistryError):
        writers(registry).decoder(9)


def test_look_ups_of_a_task_are_bounded_and_what_is_remembered_costs_none(registry: RegistryInMemory) -> None:
    first = writers(registry)
    ids = range(1_000, 1_000 + LOOKUPS_PER_TASK)
    assert {first.decoder(2), *(first.decoder(i) for i in ids)} == {Reason.WRONG_SCHEMA_TYPE, Reason.UNKNOWN_SCHEMA_ID}

    with pytest.raises(LookupsSpentError):
        first.decoder(5_000)
    next_task = writers(registry)
    for schema_id in (*ids, 5_000, 2):
        next_task.decoder(schema_id)

    assert first.decoder(2) is Reason.WRONG_SCHEMA_TYPE
    assert registry.asked == [2, *ids, 5_000, 2]
