"""The walk-through of docs/exports.md, step by step: what it prints is what the page shows."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from breadth import Place
from walk_through import DOCS, WalkThrough

PAGE = (DOCS / "exports.md").read_text(encoding="utf-8")


@dataclass(slots=True)
class ExportsPage(WalkThrough):
    """The page also saves an export spec, which begins with its table, and shows a file."""

    def follow(self, page: str) -> None:
        before, _, rest = page.partition("```yaml\ntable:")
        spec, _, after = rest.partition("```")
        exports = self.place.folder / "exports"
        exports.mkdir()
        (exports / "payments_weekly.yaml").write_text(f"table:{spec}", encoding="utf-8")
        WalkThrough.follow(self, before + after)

    def run(self, command: str) -> str:
        if command.startswith("cat "):
            return (self.place.folder / command.removeprefix("cat ")).read_text(encoding="utf-8")
        return WalkThrough.run(self, command)


def test_the_walk_through_prints_what_its_page_shows(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    topic = place.topic()
    page = PAGE.replace('"payments"', f'"{topic}"').replace("topic: payments", f"topic: {topic}\ntable: payments")
    walk = ExportsPage(place, capsys)

    walk.follow(page)

    assert len(walk.shown) == 4
