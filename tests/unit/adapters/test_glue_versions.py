"""AWS Glue keeps no version of a table for each commit: a table with a commit a minute would reach its quota."""

from __future__ import annotations

from typing import Any, cast

from frazil.adapters.iceberg.glue_catalog import QuickGlueCatalog


class NotedUpdates:
    """A client of Glue that notes how tables are updated."""

    def __init__(self) -> None:
        self.noted: dict[str, Any] = {}

    def update_table(self, **request: Any) -> None:
        self.noted = request


def test_a_commit_leaves_no_version_of_the_table() -> None:
    glue = NotedUpdates()
    catalog = QuickGlueCatalog("frazil", client=cast(Any, glue), warehouse="s3://bucket/lake")

    catalog._update_glue_table("lake", "orders", cast(Any, {"Name": "orders"}), "7")

    assert glue.noted["SkipArchive"] is True
    assert glue.noted["VersionId"] == "7"
