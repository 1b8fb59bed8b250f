"""The walk-through of docs/shapes.md, step by step: what it prints is what the page shows."""

from __future__ import annotations

import pytest
from breadth import Place
from walk_through import DOCS, WalkThrough

PAGE = (DOCS / "shapes.md").read_text(encoding="utf-8")


def test_the_walk_through_prints_what_its_page_shows(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    page = PAGE.replace("accounts", place.topic()).replace("lake.", f"{place.name}.")
    walk = WalkThrough(place, capsys)

    walk.follow(page)

    assert len(walk.shown) == 5
    assert "read together with" in walk.run(f"frazil explain {place.name}.{page.split('topic: ')[1].split()[0]}_now")
