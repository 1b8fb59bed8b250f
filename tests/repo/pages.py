"""The pages that people write, and the code as text: what the tests of this folder look into."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
DRAWN = {"resources.md"}
"""Pages of docs/ that are generated."""

WRITTEN = [
    *(ROOT / name for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md")),
    *sorted(path for path in (ROOT / "docs").glob("*.md") if path.name not in DRAWN),
    *sorted((ROOT / "docs/decisions").glob("*.md")),
]
GENERATED = [*sorted((ROOT / "docs/reference").glob("*.md")), *(ROOT / "docs" / name for name in sorted(DRAWN))]
SOURCES = sorted(
    path
    for folder in ("jobs", "infra", "lambdas", "shared", "devcloud")
    for path in (ROOT / folder).rglob("*.py")
    if not path.is_relative_to(ROOT / "infra/resources")  # generated
)

_FENCE = re.compile(r"^( *)```(\w*)\n(.*?)^\1```$", re.DOTALL | re.MULTILINE)
_SPAN = re.compile(r"`([^`\n]+)`")


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def text_of(path: Path) -> str:
    return path.read_text(encoding="utf-8")


@dataclass(frozen=True, slots=True)
class Fence:
    """A fenced block: the word behind the fence, and what is inside."""

    language: str
    body: str


def fences(page: Path) -> list[Fence]:
    return [Fence(language, body) for _, language, body in _FENCE.findall(text_of(page))]


def prose(page: Path) -> str:
    """A page without its fenced blocks."""
    return _FENCE.sub("", text_of(page))


def spans(page: Path) -> list[str]:
    """Return the texts between backticks, outside of fenced blocks."""
    return _SPAN.findall(prose(page))


def section(page: Path, title: str) -> str:
    """Return the text under a second-level heading."""
    parts = re.split(r"^## (.+)$", text_of(page), flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))[title]


def table(text: str) -> list[list[str]]:
    """The cells of the first table in a text, without its heading."""
    found = re.search(r"^\|.*\n\|[-| ]+\n((?:\|.*(?:\n|$))*)", text, re.MULTILINE)
    lines = found[1].splitlines() if found else []
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


@functools.cache
def trees() -> tuple[tuple[Path, ast.Module], ...]:
    return tuple((path, parsed(text_of(path))) for path in SOURCES)


@functools.cache
def parsed(source: str) -> ast.Module:
    """Return the tree of some code, parsed once for all tests."""
    return ast.parse(source)


@functools.cache
def nodes_of(tree: ast.AST) -> tuple[ast.AST, ...]:
    """Return the nodes of a whole module in the order of `ast.walk`, found once for all tests."""
    return tuple(ast.walk(tree))


def texts_in(tree: ast.AST) -> Iterator[str]:
    """Every text in some code as it would be printed, `…` standing for what is filled in."""
    for node in nodes_of(tree):
        if isinstance(node, ast.JoinedStr):
            yield "".join(str(p.value) if isinstance(p, ast.Constant) else "…" for p in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value
