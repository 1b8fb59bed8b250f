"""The walk-through of docs/learn.md, step by step: what it prints is what the page shows."""

from __future__ import annotations

import pytest
from breadth import Place
from walk_through import DOCS, WalkThrough

PAGE = (DOCS / "learn.md").read_text(encoding="utf-8")


def test_the_walk_through_prints_what_its_page_shows(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    page = PAGE.replace('"sensors"', f'"{place.name}"').replace("topic: sensors", f"topic: {place.name}")
    walk = WalkThrough(place, capsys)

    walk.follow(page.replace(" sensors --", f" {place.name} --").replace("lake.sensors", f"{place.name}.{place.name}"))

    assert len(walk.shown) == 2
