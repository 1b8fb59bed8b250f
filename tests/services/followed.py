"""A page of the documentation that is followed in a folder of its own, with one session of Spark for all pages."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from breadth import Place
from walk_through import FENCE, pattern_of, run_script

from frazil.adapters.spark.sql.session import SqlSession
from frazil.cli import app
from frazil.local.produce import produce
from tests.fakes.in_process import InProcessRunner

SAVED = re.compile(r"Save this as\s+`([^`]+)`")
SET_UP = ("export", "unset", "openssl")
"""Programs that prepare what a test prepares itself."""


class Tasks(InProcessRunner):
    """Carries out the tasks of commands, which also ask how far they are."""

    def offsets_read(self, name: str) -> int:
        del name
        return 0


@dataclass(slots=True)
class Reader:
    """Follows the fenced texts of a page: files to save, commands, and what these print.

    Paths of the page are relative to `root`. `topics` are the names that topics have in the test, for those that
    commands of the page fill.
    """

    place: Place
    root: Path
    capsys: pytest.CaptureFixture[str]
    topics: Mapping[str, str] = field(default_factory=dict)
    shown: int = 0

    def follow(self, page: str) -> None:
        """Carry out every step. Raises AssertionError where something else is printed than the page shows."""
        printed, end = "", 0
        for fence in FENCE.finditer(page):
            language, text = fence.groups()
            saved = SAVED.findall(page, end, fence.start())
            end = fence.end()
            if saved:
                self._save(saved[-1], text)
            elif language == "bash":
                printed = "\n".join(map(self.run, text.splitlines()))
            elif not language:
                assert pattern_of(text).search(" ".join(printed.split())), f"{text}\n{printed}"
                self.shown += 1

    def run(self, command: str) -> str:
        """Return what a command of the page prints."""
        words = shlex.split(command, comments=True)
        match [words[0].rpartition("/")[2], *words[1:]]:
            case [program, *_] if program in SET_UP:
                return ""
            case ["python", script, *arguments]:
                return run_script(self._text(script), self.place, *arguments)
            case ["head", count, name]:
                return "\n".join(self._text(name).splitlines()[: -int(count)])
            case ["frazil", "local", "up" | "down"]:
                return ""
            case ["frazil", "local", "produce", name, *options]:
                return self._produce(name, dict(zip(options[::2], options[1::2], strict=True)))
            case ["frazil", *rest]:
                config = str(self.place.folder / "frazil.yaml")
                assert app.run([*rest, "--config", config]) == 0, self.capsys.readouterr()
                return self.capsys.readouterr().out
        raise AssertionError(f"no reader can run {command}")

    def _save(self, name: str, text: str) -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def _text(self, name: str) -> str:
        return (self.root / name).read_text(encoding="utf-8-sig")

    def _produce(self, name: str, options: Mapping[str, str]) -> str:
        rows, seed = int(options["--rows"]), int(options.get("--seed", "0"))
        produce(name, rows, services=self.place.services, topic=self.topics[name], partitions=2, seed=seed)
        return ""


def share_spark(monkeypatch: pytest.MonkeyPatch, session: SqlSession) -> None:
    """Let commands run their queries in this session and all else in this process."""
    monkeypatch.setattr("frazil.adapters.spark.runner.SparkRunner", lambda **_: Tasks())
    monkeypatch.setattr("frazil.cli.transform.started_when_needed", lambda _: lambda: session)


def write_settings(place: Place) -> None:
    """Write a configuration with the usual database, in a warehouse of its own."""
    written = {
        "kafka": {"bootstrap.servers": place.services.bootstrap_servers},
        "schema_registry": place.registry_section,
        "catalog": place.catalog,
        "database": "lake",
    }
    (place.folder / "frazil.yaml").write_text(json.dumps(written), encoding="utf-8")
