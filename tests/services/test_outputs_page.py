"""The walk-through of docs/outputs.md, step by step: what it prints is what the page shows."""

from __future__ import annotations

import pytest
from breadth import Place
from walk_through import DOCS, WalkThrough

PAGE = (DOCS / "outputs.md").read_text(encoding="utf-8").partition("## Declare one")[0]


def test_the_walk_through_prints_what_its_page_shows(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    walk = WalkThrough(place, capsys)

    walk.follow(PAGE.replace("pupils", place.topic()))

    assert len(walk.shown) == 3
