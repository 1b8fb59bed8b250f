"""The walk-through of docs/routes.md, step by step: what it prints is what the page shows."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import pytest
from breadth import Place, catch_up

from frazil.adapters import registry
from frazil.cli import app
from frazil.cli.receipt_lines import lines
from frazil.model.receipt import Receipt

PAGE = (Path(__file__).parents[2] / "docs" / "routes.md").read_text(encoding="utf-8")
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
STATUS = 'subprocess.check_output([".venv/bin/frazil", "local", "status", "--json"])'


@pytest.fixture
def fences(place: Place) -> list[tuple[str, str]]:
    """The fenced texts of the page with their languages, with names of this test's own."""
    topic = place.topic()
    page = PAGE.replace("events", topic).replace("shop.", f"{topic}.").replace('"shop"', f'"{topic}"')
    return FENCE.findall(page.replace("lake.", f"{place.name}."))


def test_the_walk_through_prints_what_its_page_shows(
    place: Place, fences: list[tuple[str, str]], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    shared = place.opened()
    monkeypatch.setattr(registry.ConfluentRegistry, "close", lambda _: None)  # other tests of this process use it
    monkeypatch.setattr(registry, "ConfluentRegistry", lambda settings: shared)
    script = spec = printed = ""
    shown: list[str] = []

    for language, text in fences:
        match language:
            case "python":
                script = text
            case "yaml":
                spec += text
                place.settings(spec)
            case "bash":
                printed = "\n".join(_run(command, place, script, spec, capsys) for command in text.splitlines())
            case _:
                assert _pattern(text).search(" ".join(printed.split())), f"{text}\n{printed}"
                shown.append(text)

    assert len(shown) == 5
    assert _run("frazil status web_refunds", place, script, spec, capsys)
    assert "read together with" in _run("frazil explain web_refunds", place, script, spec, capsys)


def _run(command: str, place: Place, script: str, spec: str, capsys: pytest.CaptureFixture[str]) -> str:
    """Return what a command of the page prints."""
    if command.endswith(".py"):
        assert STATUS in script
        addresses = repr(json.dumps(asdict(place.services)))
        return subprocess.check_output([sys.executable, "-c", script.replace(STATUS, addresses)], text=True)
    if command.startswith("frazil materialize "):
        receipts: list[Receipt] = []
        catch_up(place.run(spec, on_receipt=receipts.append))
        return "\n".join(line for each in receipts for line in lines(each))
    words = command.removeprefix("frazil ").split()
    assert app.run([*words, "--config", str(place.folder / "frazil.yaml")]) == 0, (command, capsys.readouterr())
    return capsys.readouterr().out


def _pattern(shown: str) -> re.Pattern[str]:
    """Match what was printed, which the page shows shortened at …, with other ids, times and widths."""
    text = re.sub(r"(snapshot|batch|through|no_route) (?=[^a-z]|\w{12}\b)[\w.:-]+", r"\1 ID", " ".join(shown.split()))
    pattern = re.escape(re.sub(r"-{4,}", "RULE", text))
    return re.compile(pattern.replace("ID", r"\S+").replace("RULE", "-+").replace("…", ".*"))
