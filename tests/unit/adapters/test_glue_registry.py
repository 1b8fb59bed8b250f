"""AWS Glue's registry answers in pages; tests/services/test_wire_formats.py has its other answers."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from frazil.adapters.glue_registry import GlueRegistry
from frazil.model.schemas import RegisteredSchema
from frazil.model.spec import GlueSource, RegistrySettings


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
        return {"SchemaVersionId": str(UUID(int=number)), "Status": self.statuses[number], **text}

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
