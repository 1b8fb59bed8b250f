"""The walk-through of docs/history.md, step by step: what it prints is what the page shows."""

from __future__ import annotations

import pytest
from breadth import Place
from walk_through import DOCS, WalkThrough

PAGE = (DOCS / "history.md").read_text(encoding="utf-8")


def test_the_walk_through_prints_what_its_page_shows(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    page = PAGE.replace("prices", place.topic()).replace("lake.", f"{place.name}.")
    walk = WalkThrough(place, capsys)

    walk.follow(page)

    assert len(walk.shown) == 7
