"""An error as commands print it: its class name, which docs/operate.md lists, its text, and its hint."""

from __future__ import annotations

import sys

from frazil.cli import config_name
from frazil.model.errors import FrazilError


def named(error: FrazilError) -> str:
    """Return the error's text with its class name; a list of errors has several names."""
    said = config_name.text_of(error)
    return said if type(error) is FrazilError else f"{type(error).__name__}: {said}"


def print_error(error: FrazilError) -> None:
    """Print the error to stderr, as wide as the terminal."""
    from frazil.cli.columns import print_line  # noqa: PLC0415 - rarely needed
    from frazil.cli.screen import fitting_lines  # noqa: PLC0415

    text = "\n".join(fitting_lines([named(error)], sys.stderr))
    print_line(text, sys.stderr, head=type(error).__name__, style="bold red")
