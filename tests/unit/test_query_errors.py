"""Whose fault it is that a query failed."""

from __future__ import annotations

import duckdb
import pytest

from frazil.model.errors import Misuse
from frazil.query import as_errors


@pytest.mark.parametrize(
    ("said", "hint"),
    [
        ('Failed to download extension "delta" at URL "https://example.invalid/delta"', "check the network"),
        ("Parser Error: syntax error", "fix the SQL"),
    ],
)
def test_an_extension_that_cannot_be_downloaded_is_no_fault_of_the_sql(said: str, hint: str) -> None:
    with pytest.raises(Misuse) as refused, as_errors("SELECT 1"):
        raise duckdb.Error(said)

    assert said in refused.value.what
    assert hint in (refused.value.hint or "")
