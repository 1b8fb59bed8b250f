"""The names that hints should use for the configuration file of this command, and for `frazil` itself."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

DEFAULT = "frazil.yaml"
PROGRAM = "frazil"

_DEFAULT_ALONE = re.compile(rf"(?<![\w/.\\-]){re.escape(DEFAULT)}(?!\w)")
"""Matches the default name, but not at the end of a path."""
_COMMAND = re.compile(rf"(?<=`){PROGRAM}(?= )")
"""Matches the program's name at the start of a command in backquotes."""


@dataclass(slots=True)
class _Current:
    """The names of the current command. Threads of the command also log, so this is not a context variable."""

    name: str = DEFAULT
    program: str = PROGRAM
    is_fixed: bool = False


_CURRENT = _Current()


def remember(config: Path) -> Path:
    """Keep the value of `--config`, unless the caller of the command has given another name for it."""
    if not _CURRENT.is_fixed:
        _CURRENT.name = str(config)
    return config


@contextmanager
def called(name: str | None) -> Iterator[None]:
    """Use `name` for the configuration during one command; None means the value of `--config`."""
    _CURRENT.name, _CURRENT.is_fixed = name or DEFAULT, name is not None
    try:
        yield
    finally:
        _CURRENT.name, _CURRENT.is_fixed = DEFAULT, False


def remember_program(started_as: str) -> None:
    """Keep the path that the shell used to start the program, unless its bare name finds it too."""
    here = Path(started_as)
    found = shutil.which(PROGRAM)
    if here.name != PROGRAM or (found is not None and Path(found).resolve() == here.resolve()):
        return
    _CURRENT.program = str(here.relative_to(Path.cwd())) if here.is_relative_to(Path.cwd()) else str(here)


def with_config_name(text: str) -> str:
    """Return a message in which `frazil.yaml` and the program are called as on this command line."""
    name, program = _CURRENT.name, _CURRENT.program
    called_so = text if program == PROGRAM else _COMMAND.sub(lambda _: program, text)
    return called_so if name == DEFAULT else _DEFAULT_ALONE.sub(lambda _: name, called_so)
