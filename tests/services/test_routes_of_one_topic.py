"""The walk-through of docs/routes.md, step by step: what it prints is what the page shows."""

from __future__ import annotations

import pytest
from breadth import Place
from walk_through import DOCS, WalkThrough

from frazil.adapters import registry

PAGE = (DOCS / "routes.md").read_text(encoding="utf-8")


def test_the_walk_through_prints_what_its_page_shows(
    place: Place, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    shared, topic = place.opened(), place.topic()
    monkeypatch.setattr(registry.ConfluentRegistry, "close", lambda _: None)  # other tests of this process use it
    monkeypatch.setattr(registry, "ConfluentRegistry", lambda settings: shared)
    page = PAGE.replace("events", topic).replace("shop.", f"{topic}.").replace('"shop"', f'"{topic}"')
    walk = WalkThrough(place, capsys)

    walk.follow(page.replace("lake.", f"{place.name}."))

    assert len(walk.shown) == 6
    assert walk.run("frazil status web_refunds")
    assert "read together with" in walk.run("frazil explain web_refunds")
