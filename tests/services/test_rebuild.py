"""The walk-through of docs/rebuild.md, step by step: what it prints is what the page shows."""

from __future__ import annotations

import pytest
from breadth import Place
from walk_through import DOCS, WalkThrough

PAGE = (DOCS / "rebuild.md").read_text(encoding="utf-8")


def test_the_walk_through_prints_what_its_page_shows(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    topic = place.topic(partitions=2)
    page = PAGE.replace('"subscribers"', f'"{topic}"').replace(
        "topic: subscribers", f"topic: {topic}\ntable: subscribers"
    )
    walk = WalkThrough(place, capsys)

    walk.follow(page.replace("lake.", f"{place.name}."))

    assert len(walk.shown) == 5
