"""Glue refuses a table for what its copy of the columns holds: the catalog gives it what it accepts."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any

import pytest

from frazil.adapters.iceberg.glue_catalog import LONGEST_TEXT, LONGEST_TYPE, QuickGlueCatalog

LINE = re.compile(r"[\t\u0020-\ufffd\U00010000-\U0010ffff]*")
"""The pattern of comments in the model of Glue's API."""


class Glue:
    """Judges tables as Glue's API does, and keeps the last one."""

    exceptions = SimpleNamespace(
        AlreadyExistsException=KeyError, EntityNotFoundException=KeyError, ConcurrentModificationException=KeyError
    )

    def create_table(self, *, TableInput: Any, **more: Any) -> None:  # noqa: N803 - as boto3 calls it
        del more
        self.columns = TableInput["StorageDescriptor"]["Columns"]
        for each in self.columns:
            comment = each.get("Comment", "")
            assert len(each["Name"].encode()) <= LONGEST_TEXT
            assert len(each["Type"].encode()) <= LONGEST_TYPE
            assert len(comment.encode()) <= LONGEST_TEXT
            assert LINE.fullmatch(comment)

    update_table = create_table


def stored(comment: str | None = None, *, updated: bool, **more: str) -> list[dict[str, str]]:
    catalog, glue = QuickGlueCatalog.__new__(QuickGlueCatalog), Glue()
    catalog.glue, catalog.properties = glue, {}  # type: ignore[assignment]
    about = {} if comment is None else {"Comment": comment}
    columns = [{"Name": "n", "Type": "bigint"}, {"Name": "text", "Type": "string", **about, **more}]
    given = {"Name": "orders", "StorageDescriptor": {"Columns": columns, "Location": "s3://lake/orders"}}
    if updated:
        catalog._update_glue_table("lake", "orders", given, "1")
    else:
        catalog._create_glue_table("lake", "orders", given)
    return glue.columns  # type: ignore[no-any-return]


@pytest.mark.parametrize("updated", [False, True], ids=["created", "updated"])
@pytest.mark.parametrize(
    ("comment", "expected"),
    [
        ("What was paid.\r\n\tIn cents.", "What was paid. \tIn cents."),
        ("x" * 300, "x" * LONGEST_TEXT),
        ("é" * 200, "é" * 127),
        ("\x00\uffff😀", " 😀"),
        ("as it is", "as it is"),
    ],
    ids=["two lines", "long", "long in bytes", "controls", "short"],
)
def test_a_comment_is_one_line_that_fits(comment: str, expected: str, *, updated: bool) -> None:
    assert stored(comment, updated=updated)[1]["Comment"] == expected


def test_a_column_without_a_comment_gets_none() -> None:
    assert stored(updated=False)[1] == {"Name": "text", "Type": "string"}


@pytest.mark.parametrize(
    "more", [{"Type": f"struct<{'a:int,' * 30_000}b:int>"}, {"Name": "é" * 128}], ids=["type", "name"]
)
def test_a_column_that_glue_cannot_have_is_left_out_of_its_copy(more: dict[str, str]) -> None:
    assert [each["Name"] for each in stored(updated=True, **more)] == ["n"]
