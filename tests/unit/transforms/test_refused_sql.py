"""What is said of SQL that Spark refuses, and of results without names."""

from __future__ import annotations

import pytest

from frazil.model.columns import Column, Scalar
from frazil.transforms.checks import note_on_names
from frazil.transforms.refused_sql import place_in_sql, said

NOT_FOUND = (
    "[TABLE_OR_VIEW_NOT_FOUND] The table or view `others` cannot be found. Verify the spelling and correctness of the"
    " schema and catalog.\nTo tolerate the error on drop use DROP VIEW IF EXISTS. SQLSTATE: 42P01; line 2 pos 15"
)
SYNTAX = "\n[PARSE_SYNTAX_ERROR] Syntax error at or near 'BY'. SQLSTATE: 42601 (line 3, pos 5)\n\n== SQL ==\nSELECT"


@pytest.mark.parametrize(
    ("message", "what", "place"),
    [
        (NOT_FOUND, "The table or view `others` cannot be found.", " (line 2 of the SQL, character 16)"),
        (SYNTAX, "Syntax error at or near 'BY'.", " (line 3 of the SQL, character 6)"),
        ("Something else", "Something else", ""),
    ],
)
def test_a_message_has_what_the_author_can_use(message: str, what: str, place: str) -> None:
    assert said(ValueError(message)) == what
    assert place_in_sql(ValueError(message)) == place


def test_columns_without_names_are_noted() -> None:
    named, unnamed = Column("trades", Scalar("long")), Column("count(1)", Scalar("long"))

    assert note_on_names("totals", [named]) is None
    assert "the query of totals has no name for count(1): add one with AS" in str(note_on_names("totals", [unnamed]))
