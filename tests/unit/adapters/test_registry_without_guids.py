"""A registry without GUIDs answers a look-up by one as another server would: the hint says which registry has them."""

from __future__ import annotations

from uuid import UUID

import pytest
from confluent_kafka.schema_registry.error import SchemaRegistryError

from frazil.adapters.registry import ConfluentRegistry
from frazil.model.errors import RegistryError
from frazil.model.schemas import SchemaId
from frazil.model.settings import RegistrySettings


class NoSuchPath:
    """A client of a server that has no page for what is asked."""

    def get_schema(self, schema_id: int) -> None:
        raise SchemaRegistryError(404, -1, f"no page for {schema_id}")

    def get_schema_by_guid(self, guid: str) -> None:
        raise SchemaRegistryError(404, -1, f"no page for {guid}")


@pytest.mark.parametrize(
    ("schema_id", "said"), [(UUID(int=1), "wire_format: confluent_headers"), (1, "another server answers there")]
)
def test_the_hint_of_a_lookup_by_guid_names_the_wire_format(schema_id: SchemaId, said: str) -> None:
    registry = ConfluentRegistry(RegistrySettings("http://registry.test"))
    registry._opened = NoSuchPath()  # type: ignore[assignment]

    with pytest.raises(RegistryError) as raised:
        registry.by_id(schema_id)

    assert said in raised.value.hint
