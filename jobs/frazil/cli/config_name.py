"""The names that hints should use for the configuration file of this command, and for `frazil` itself.

If the environment variable FRAZIL_CONFIG names the file, hints say so: a shell may have it from another environment.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import typer

from frazil.model.errors import FrazilError, SettingError, SpecError

DEFAULT = "frazil.yaml"
PROGRAM = "frazil"
VARIABLE = "FRAZIL_CONFIG"
_UNSET = f"run `unset {VARIABLE}` to use ./{DEFAULT}"

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
    is_of_variable: bool = False


_CURRENT = _Current()


def remember(context: typer.Context, config: Path) -> Path:
    """Keep the value of `--config`, unless the caller of the command has given another name for it.

    Raises SettingError if FRAZIL_CONFIG names a file that does not exist.
    """
    if _CURRENT.is_fixed:
        return config
    is_of_variable = _is_of_variable(context, config)
    if is_of_variable and not config.exists():
        raise SettingError(
            f"the environment variable {VARIABLE} names a file that does not exist: {config}",
            hint=f"{_UNSET}, or name another file: --config FILE",
        )
    _CURRENT.name, _CURRENT.is_of_variable = str(config), is_of_variable
    return config


def _is_of_variable(context: typer.Context, config: Path) -> bool:
    """Return whether the variable selects another file than the default."""
    source = context.get_parameter_source("config")
    return source is not None and source.name == "ENVIRONMENT" and config.absolute() != Path(DEFAULT).absolute()


@contextmanager
def called(name: str | None) -> Iterator[None]:
    """Use `name` for the configuration during one command; None means the value of `--config`."""
    _CURRENT.name, _CURRENT.is_fixed = name or DEFAULT, name is not None
    try:
        yield
    finally:
        _CURRENT.name, _CURRENT.is_fixed, _CURRENT.is_of_variable = DEFAULT, False, False


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


def text_of(error: FrazilError) -> str:
    """Return an error's text, with names as on this command line.

    If the error is about the configuration and FRAZIL_CONFIG has selected that, the hint ends with a remark on it.
    """
    text = with_config_name(str(error))
    origin = remark_on_origin()
    return text if origin is None or not _is_about_the_configuration(error, text) else f"{text}; {origin}"


def _is_about_the_configuration(error: FrazilError, text: str) -> bool:
    """Return whether the error is about a setting or a table spec, or names the file or another one in its folder."""
    folder = Path(_CURRENT.name).parent
    is_named = _CURRENT.name in text or (folder != Path() and f"{folder}/" in text)
    return is_named or isinstance(error, SettingError | SpecError)


def remark_on_origin() -> str | None:
    """Return how to use the default configuration if FRAZIL_CONFIG has selected another one, or None."""
    return f"{VARIABLE} selects this configuration; {_UNSET}" if _CURRENT.is_of_variable else None
