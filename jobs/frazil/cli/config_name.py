"""The configuration file of this command, by the name that hints should use for it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

DEFAULT = "frazil.yaml"

_DEFAULT_ALONE = re.compile(rf"(?<![\w/.\\-]){re.escape(DEFAULT)}(?!\w)")
"""The default name, but not as the end of a path."""


@dataclass(slots=True)
class _Current:
    """A process carries out one command at a time, with threads that log, so this is no context variable."""

    name: str = DEFAULT
    is_fixed: bool = False


_CURRENT = _Current()


def remember(config: Path) -> Path:
    """Keep the value of `--config`, unless the caller of the command has given another name for it."""
    if not _CURRENT.is_fixed:
        _CURRENT.name = str(config)
    return config


@contextmanager
def called(name: str | None) -> Iterator[None]:
    """During one command, use `name` for the configuration; None stands for the value of `--config`."""
    _CURRENT.name, _CURRENT.is_fixed = name or DEFAULT, name is not None
    try:
        yield
    finally:
        _CURRENT.name, _CURRENT.is_fixed = DEFAULT, False


def with_config_name(text: str) -> str:
    """Return a message in which `frazil.yaml` is the configuration that this command read."""
    name = _CURRENT.name
    return text if name == DEFAULT else _DEFAULT_ALONE.sub(lambda _: name, text)
