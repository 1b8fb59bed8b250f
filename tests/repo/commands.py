"""The commands that there are: verbs of `frazil` and of deploy.sh with their options, and targets of make."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

import click
import typer
from pages import ROOT, text_of

from frazil.cli.app import build_app

MAKEFILE = text_of(ROOT / "Makefile")
SCRIPT = "scripts/deploy.sh"
_HEADING = text_of(ROOT / SCRIPT).partition("\nset -e")[0]
DEPLOY_VERBS = frozenset("|".join(re.findall(rf"^# Usage: {SCRIPT} ([a-z|]+)", _HEADING, re.MULTILINE)).split("|"))
DEPLOY_OPTIONS = frozenset(re.findall(r"^#   (--[a-z-]+)", _HEADING, re.MULTILINE)) | {"--help"}
TARGETS = frozenset(" ".join(re.findall(r"^\.PHONY: (.*)$", MAKEFILE, re.MULTILINE)).split())


def _verbs(command: click.Command, path: str) -> Iterator[tuple[str, frozenset[str]]]:
    options = frozenset(option for parameter in command.params for option in parameter.opts) | {"--help", "-h"}
    yield path, options
    for name, inner in getattr(command, "commands", {}).items():
        yield from _verbs(inner, f"{path} {name}")


VERBS = dict(_verbs(typer.main.get_command(build_app()), "frazil"))
"""`frazil local up` → its options."""


def problem_of_verb(line: str) -> str | None:
    """Return why `frazil …` would be misuse by its verb or options, or None."""
    words = shlex.split(line, comments=True)
    verb = words.pop(0)
    while words and f"{verb} {words[0]}" in VERBS:
        verb += f" {words.pop(0)}"
    if verb == "frazil" and words and not words[0].startswith("-"):
        return f"there is no verb {words[0]}"
    unknown = [word for word in words if word.startswith("--") and word.partition("=")[0] not in VERBS[verb]]
    return f"{verb} has no {', '.join(unknown)}" if unknown else None


def problem_of_deploy(words: list[str]) -> str | None:
    """Why `scripts/deploy.sh …` would be misuse; `words` follow its name."""
    verbs = [word for word in words if not word.startswith("-")]
    unknown = [word for word in words if word.startswith("-") and word.partition("=")[0] not in DEPLOY_OPTIONS]
    if verbs[1:] or not set(verbs) <= DEPLOY_VERBS:
        return f"{SCRIPT} has no verb {' '.join(verbs)}"
    return f"{SCRIPT} has no {', '.join(unknown)}" if unknown else None
