"""Errors, hints, help texts and the first lines of docstrings use no word that plain English does without."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = ("jobs", "infra", "lambdas", "shared", "devcloud")
"""Folders that keep the rule. This list only grows."""
BANNED = re.compile(
    r"\b(whoever|somebody|someone|nobody|no one|that which|besides|fares?|mend(s|ed|ing)?|there yet|taken away"
    r"|tells? of|(is|are|was|were) told|(it|they|each|what|that|which) (stands?|lies?))\b",
    re.IGNORECASE,
)
RAISED = re.compile(r"Error$|^(Misuse|Problem|Finding|NotYet)$")
"""The names of calls whose arguments a user reads."""
TEXTS = ("hint", "help", "epilog")
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def offences(source: str) -> list[str]:
    """Return the number and text of each line that a banned word is in."""
    tree = ast.parse(source)
    found = {(line, text) for line, text in (*_messages(tree), *_first_lines(tree)) if BANNED.search(text)}
    return [f"{line}: {text}" for line, text in sorted(found)]


def _messages(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield the string constants in the arguments of errors, and in hints and help texts of any call."""
    for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
        name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
        read = [*call.args, *(each.value for each in call.keywords)] if RAISED.search(name) else []
        for argument in (*read, *(each.value for each in call.keywords if each.arg in TEXTS)):
            yield from _constants(argument)


def _constants(node: ast.AST) -> Iterator[tuple[int, str]]:
    for each in ast.walk(node):
        if isinstance(each, ast.Constant) and isinstance(each.value, str):
            yield each.lineno, each.value


def _first_lines(tree: ast.AST) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if isinstance(node, DOCUMENTED) and (text := ast.get_docstring(node)):
            yield node.body[0].lineno, text.partition("\n")[0]


@pytest.mark.parametrize("folder", FOLDERS)
def test_messages_and_docstrings_are_plain(folder: str) -> None:
    paths = sorted((ROOT / folder).rglob("*.py"))
    assert paths

    found = [f"{path.relative_to(ROOT)}:{each}" for path in paths for each in offences(path.read_text())]

    assert found == [], "use the plain word: see the pattern at the top of this file"


@pytest.mark.parametrize(
    "source",
    [
        '"""What somebody reads."""',
        'def act():\n    """Say what it stands for.\n\n    More.\n    """',
        'raise SettingError("it is not there yet", hint="wait")',
        'raise SettingError(f"{1} cannot be read", hint="mend it")',
        'raise errors.Misuse("x" if y else f"{z} is told nothing", hint="")',
        'Option("--once", help="For whoever waits.")',
    ],
)
def test_a_banned_word_is_found(source: str) -> None:
    assert len(offences(source)) == 1


def test_words_that_only_contain_a_banned_one_and_other_strings_pass() -> None:
    assert offences('"""Amend a file\'s name."""\nNAME = "nobody"\nraise KeyError("recommended")') == []
