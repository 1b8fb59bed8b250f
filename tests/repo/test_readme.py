"""The README is short, and what it shows is what the demo prints."""

from __future__ import annotations

import ast
import re
import shlex
from types import SimpleNamespace

import pytest
from pages import ROOT, Fence, fences, section, table, text_of, texts_in

from frazil.demo import story as demo

README = ROOT / "README.md"
DEMO = ast.parse(text_of(ROOT / "jobs/frazil/demo/story.py"))
SHOWN = "── "
"""What a heading of the demo's output begins with."""


@pytest.fixture(scope="module")
def output() -> Fence:
    return next(fence for fence in fences(README) if fence.body.lstrip().startswith(SHOWN))


def _calls(function: str) -> list[ast.Call]:
    calls = [node for node in ast.walk(DEMO) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)]
    return sorted((c for c in calls if getattr(c.func, "id", "") == function), key=lambda call: call.lineno)


def _constants() -> dict[str, str]:
    pairs = [(node.targets[0], node.value) for node in DEMO.body if isinstance(node, ast.Assign)]
    return {
        name.id: value.value
        for name, value in pairs
        if isinstance(name, ast.Name) and isinstance(value, ast.Constant) and isinstance(value.value, str)
    }


def _argument(node: ast.expr) -> str:
    return _constants()[node.id] if isinstance(node, ast.Name) else str(ast.literal_eval(node))


def test_it_is_short() -> None:
    assert len(text_of(README).splitlines()) < 150


def test_the_first_result_is_on_the_first_screen() -> None:
    assert "make demo" in "\n".join(text_of(README).splitlines()[:25])


def test_the_commands_shown_are_those_that_the_demo_prints(
    output: Fence, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run: list[list[str]] = []

    def instead(command: list[str], **_: object) -> SimpleNamespace:
        run.append(command[3:])
        return SimpleNamespace(returncode=0)

    monkeypatch.setattr(demo.subprocess, "run", instead)
    monkeypatch.setattr(demo, "program", lambda: ".venv/bin/frazil")
    for call in _calls("_frazil"):
        demo._frazil(*(_argument(each) for each in call.args))
    printed = capsys.readouterr().out

    shown = ["$ " + after for after in output.body.split("\n$ ")[1:]]
    commands = [f"$ {each}" for each in printed.removeprefix("$ ").split("\n$ ")]
    printed_in_order = iter(commands)
    for beginning in shown:
        assert any(beginning.startswith(f"{command.rstrip()}\n") for command in printed_in_order), beginning
    assert any("verify --against-kafka" in beginning for beginning in shown)
    pasted = [shlex.split(each) for each in commands]
    assert [words[2:] for words in pasted] == run, "what is printed is what is run"


def test_the_headings_shown_are_those_that_the_demo_prints(output: Fence) -> None:
    said = [next(texts_in(call.args[0])) for call in _calls("_say") if not isinstance(call.args[0], ast.Name)]

    shown = [line.removeprefix(SHOWN) for line in output.body.splitlines() if line.startswith(SHOWN)]

    said_in_order = (re.sub(r"\d", "…", line) for line in said)
    assert shown
    for line in shown:
        assert re.sub(r"[\d,]+\d|\d", "…", line) in said_in_order, f"the demo says no such thing, or not here: {line}"


def test_every_folder_has_a_row() -> None:
    """Those of the jobs and of the functions, and the topmost ones."""
    named = {
        name.strip("`/")
        for row in table(section(README, "Where things are"))
        for name in re.findall(r"`[^`]+`", " ".join(row))
    }
    folders = {f"jobs/frazil/{path.parent.name}" for path in (ROOT / "jobs" / "frazil").glob("*/__init__.py")}
    functions = {path.parent.name for path in (ROOT / "lambdas").glob("*/__init__.py")}

    ignored = {*text_of(ROOT / ".gitignore").replace("/", "").splitlines()}
    topmost = {path.name for path in ROOT.glob("[!.]*/") if path.is_dir()} - ignored

    assert (folders | functions) - named == set()
    assert topmost - {name.partition("/")[0] for name in named} == set()


def test_the_speed_that_it_states_is_the_measured_one() -> None:
    rows = re.findall(
        r"^\| rows per CPU-second against (.+?), median .*\| ([\d.]+) times \| (?:yes|\*\*no\*\*) \|$",
        text_of(ROOT / "bench/RESULTS.md"),
        re.MULTILINE,
    )
    stated = re.search(
        r"([\d.]+) times as many rows per\s+CPU-second as\s+plain\s+Structured\s+Streaming,\s+and\s+([\d.]+) times",
        text_of(README),
    )

    assert stated
    assert dict(rows) == {"Structured Streaming": stated[1], "Kafka Connect sink": stated[2]}
