"""The walk-through of docs/ordered-keys.md, step by step: what it prints is what the page shows."""

from __future__ import annotations

import pytest
from breadth import Place
from walk_through import DOCS, WalkThrough

PAGE = (DOCS / "ordered-keys.md").read_text(encoding="utf-8")


def test_the_walk_through_prints_what_its_page_shows(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    page = PAGE.replace("members", place.topic()).replace("lake.", f"{place.name}.")
    walk = WalkThrough(place, capsys)

    walk.follow(page)

    assert len(walk.shown) == 4
