"""AWS Glue's registry answers in pages; tests/services/test_wire_formats.py has its other answers."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from frazil.adapters.glue_registry import GlueRegistry
from frazil.model.schemas import RegisteredSchema, VersionNumber
from frazil.model.settings import GlueSource, RegistrySettings


class PagedGlue:
    """A client whose schema has five versions, two a page; only the first and the third passed their check."""

    def __init__(self) -> None:
        self.statuses = dict(
            zip(range(5, 0, -1), ("FAILURE", "FAILURE", "AVAILABLE", "FAILURE", "AVAILABLE"), strict=True)
        )

    def get_schema_version(self, *, SchemaId: Any, SchemaVersionNumber: dict[str, Any]) -> dict[str, Any]:  # noqa: N803
        del SchemaId
        number = 5 if SchemaVersionNumber.get("LatestVersion") else SchemaVersionNumber["VersionNumber"]
        text = {"DataFormat": "AVRO", "SchemaDefinition": f"version {number}"}
        place = {"SchemaArn": "arn:aws:glue:us-east-1:1:schema/r/orders", "VersionNumber": number}
        return {"SchemaVersionId": str(UUID(int=number)), "Status": self.statuses[number], **text, **place}

    def list_schema_versions(self, *, SchemaId: Any, NextToken: str = "0") -> dict[str, Any]:  # noqa: N803
        del SchemaId
        each = [{"VersionNumber": number, "Status": status} for number, status in self.statuses.items()]
        start = int(NextToken)
        more = {"NextToken": str(start + 2)} if start + 2 < len(each) else {}
        return {"Schemas": each[start : start + 2], **more}


def test_the_newest_usable_version_may_be_on_a_later_page() -> None:
    registry = GlueRegistry(GlueSource("r", "us-east-1"), RegistrySettings("http://nowhere"))
    registry._opened = PagedGlue()

    assert registry.latest("orders") == RegisteredSchema(UUID(int=3), "AVRO", "version 3")


class AllRegistries:
    """A client that finds each id, as AWS Glue does, in a registry of the account and in any state."""

    def __init__(self, registry: str, status: str) -> None:
        self.arn, self.status, self.asked = f"arn:aws:glue:us-east-1:1:schema/{registry}/orders", status, 0

    def get_schema_version(self, *, SchemaVersionId: str) -> dict[str, Any]:  # noqa: N803
        self.asked += 1
        found = {"SchemaVersionId": SchemaVersionId, "Status": self.status, "SchemaArn": self.arn}
        return {**found, "DataFormat": "AVRO", "SchemaDefinition": "text", "VersionNumber": 4}


@pytest.mark.parametrize("status", ["AVAILABLE", "PENDING"])
def test_an_id_of_another_registry_is_unknown_whatever_its_state(status: str) -> None:
    registry = GlueRegistry(GlueSource("r", "us-east-1"), RegistrySettings("http://nowhere"))
    registry._opened = elsewhere = AllRegistries("r2", status)

    assert [registry.by_id(UUID(int=1)), registry.by_id(UUID(int=1))] == [None, None]
    assert registry.remembers_missing(UUID(int=1))
    assert elsewhere.asked == 1


def test_an_id_of_this_registry_is_its_schema() -> None:
    registry = GlueRegistry(GlueSource("r", "us-east-1"), RegistrySettings("http://nowhere"))
    registry._opened = AllRegistries("r", "AVAILABLE")

    found = registry.by_id(UUID(int=1))

    assert found == RegisteredSchema(UUID(int=1), "AVRO", "text")
    assert found.version == VersionNumber("arn:aws:glue:us-east-1:1:schema/r/orders", 4)
