"""A page of the documentation that is followed step by step: what its commands print is what the page shows."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from dataclasses import asdict, dataclass, field
from pathlib import Path

import pytest
from breadth import Place, catch_up

from frazil.cli import app
from frazil.cli.rebuild import rebuilt_lines
from frazil.cli.receipt_lines import lines
from frazil.materialize.rebuild.rewind import ToEarliest
from frazil.model.receipt import Receipt

DOCS = Path(__file__).parents[2] / "docs"
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
STATUS = 'subprocess.check_output([".venv/bin/frazil", "local", "status", "--json"])'
"""How the script of a page finds the services."""

WAREHOUSE = '".frazil/warehouse"'
"""How a script finds the tables."""


@dataclass(slots=True)
class WalkThrough:
    """Follows the fenced texts of a page: a script in Python, specs in parts, commands, and what they print.

    A spec begins with its topic or topics, and takes the place of the one before it.
    """

    place: Place
    capsys: pytest.CaptureFixture[str]
    script: str = ""
    spec: str = ""
    shown: list[str] = field(default_factory=list)

    def follow(self, page: str) -> None:
        """Carry out every step. Raises AssertionError where something else is printed than the page shows."""
        printed = ""
        for language, text in FENCE.findall(page):
            match language:
                case "python":
                    self.script = text
                case "yaml":
                    self.spec = text if text.startswith("topic") else self.spec + text
                    self.place.settings(self.spec)
                case "bash":
                    printed = "\n".join(map(self.run, text.splitlines()))
                case "mermaid":
                    continue
                case _:
                    assert pattern_of(text).search(" ".join(printed.split())), f"{text}\n{printed}"
                    self.shown.append(text)

    def run(self, command: str) -> str:
        """Return what a command of the page prints."""
        program, *words = command.split()
        if program.endswith("python"):
            return run_script(self.script, self.place, *words[1:])
        if words[0] == "materialize":
            receipts: list[Receipt] = []
            catch_up(self.place.run(self.spec, on_receipt=receipts.append))
            return "\n".join(line for each in receipts for line in lines(each))
        if words[0] in ("rebuild", "rewind"):
            target = ToEarliest() if words[0] == "rewind" else None
            return "\n".join(rebuilt_lines(self.place.rebuild(self.spec, target).perform()))
        words = shlex.split(command)[1:]
        assert app.run([*words, "--config", str(self.place.folder / "frazil.yaml")]) == 0, self.capsys.readouterr()
        return self.capsys.readouterr().out


def run_script(script: str, place: Place, *arguments: str) -> str:
    """Run a script of a page on the services of a place, and return what it prints."""
    assert STATUS in script or WAREHOUSE in script
    script = script.replace(STATUS, repr(json.dumps(asdict(place.services))))
    script = script.replace(WAREHOUSE, repr(str(place.folder / "warehouse")))
    return subprocess.check_output([sys.executable, "-c", script, *arguments], text=True)


def pattern_of(shown: str) -> re.Pattern[str]:
    """Match what was printed, which the page shows shortened at …, with other ids, times and widths."""
    text = re.sub(r"(snapshot|batch|through|no_route) (?=[^a-z]|\w{12}\b)[\w.:-]+", r"\1 ID", " ".join(shown.split()))
    pattern = re.escape(re.sub(r"-{4,}", "RULE", text))
    return re.compile(pattern.replace("ID", r"\S+").replace("RULE", "-+").replace("…", ".*"))
