"""Problems of the configuration, collected over all files and shown together."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from frazil.model.errors import Misuse, SettingError
from frazil.model.spelling import did_you_mean

REFERENCE = "docs/reference/ describes every key: settings.md, tables.md, exports.md, transforms.md, environments.md"


@dataclass(frozen=True, slots=True)
class Position:
    """The position of a value: file, line and column (from one; 0 for the whole file), and key path."""

    file: str
    line: int = 0
    column: int = 0
    path: str = ""

    def __str__(self) -> str:
        where = f"{self.file}:{self.line}:{self.column}" if self.line else self.file
        return f"{where}: {self.path}" if self.path else where


@dataclass(frozen=True, slots=True)
class Problem:
    """One problem. `error` is the class of error to raise if all problems have the same class."""

    place: Position
    what: str
    hint: str
    error: type[Misuse] = SettingError

    def __str__(self) -> str:
        return f"{self.place}: {self.what}"


@dataclass(slots=True)
class Problems:
    """Collects problems in the order in which they are found."""

    found: list[Problem] = field(default_factory=list)

    def add(self, problem: Problem) -> None:
        self.found.append(problem)

    def raise_if_any(self) -> None:
        """Raise one error for all problems: Misuse, or a subclass that all of them share."""
        if self.found:
            raise as_error(self.found)


def as_error(problems: list[Problem]) -> Misuse:
    """Return one error for all problems: a single problem itself, or a list with each problem's hint below it."""
    kinds = {problem.error for problem in problems}
    kind = kinds.pop() if len(kinds) == 1 else SettingError
    if len(problems) == 1:
        return kind(str(problems[0]), hint=problems[0].hint)
    files = list(dict.fromkeys(problem.place.file for problem in problems))
    ordered = sorted(problems, key=lambda each: (files.index(each.place.file), each.place.line, each.place.column))
    listed = "\n".join(f"{problem}\n    {problem.hint}" for problem in ordered)
    return kind(f"The configuration has {len(problems)} problems.\n\n{listed}", hint=REFERENCE)


def suggest(word: str, candidates: Iterable[str], *, possible: str | None = None, listed: str = REFERENCE) -> str:
    """Return a hint: the most similar candidate, or the possibilities, or where they are listed.

    `possible` is the list of the candidates, unless there are other possibilities, too. `listed` says where many are.
    """
    names = list(candidates)
    likely = did_you_mean(word, names)
    if likely is not None:
        return f"did you mean {likely}?"
    if possible is None and len(names) == 1:
        return f"use {names[0]}, the only one"
    return f"use one of: {possible or ', '.join(names)}" if 0 < len(names) <= 12 else listed
