"""The sources of Terraform's providers: the user's configuration, mirrors on this machine, the network.

Terraform reads one configuration file. Where the user's says how providers are installed, ours says the same. Where
it does not, or names a file that is not there, ours names what Terraform would look through by itself, the folder in
FRAZIL_PLUGIN_MIRROR, and, if none of them has a needed provider, mirrors in the usual places of a machine.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

REGISTRY = "registry.terraform.io"
"""Also the name of the folder that makes a mirror one."""
MIRROR_VARIABLE = "FRAZIL_PLUGIN_MIRROR"
USUAL_PLACES = ("opt", "usr/local", "usr/share", "srv", "var/lib", "home")
DEEPEST = 3
"""Folders between a usual place and a mirror in it."""
_INSTALLATION = re.compile(r"provider_installation\s*\{((?:[^{}]|\{[^{}]*\})*)\}")
_METHOD = re.compile(r"(filesystem_mirror|network_mirror|direct|dev_overrides)\s*\{([^{}]*)\}")
_COMMENT = re.compile(r"^\s*(#|//).*$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Method:
    """One block of `provider_installation`. `place` is its path or URL; without `include` it is for all providers."""

    kind: str
    place: str = ""
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()

    def without(self, providers: Iterable[str]) -> Method:
        return replace(self, exclude=tuple(dict.fromkeys((*self.exclude, *providers))))

    def written(self) -> str:
        place = {"filesystem_mirror": "path", "network_mirror": "url"}.get(self.kind)
        lines = [f"{place} = {json.dumps(self.place)}"] if place else []
        lines += [f"include = {json.dumps(self.include)}"] if self.include else []
        lines += [f"exclude = {json.dumps(self.exclude)}"] if self.exclude else []
        return "".join((f"  {self.kind} {{\n", *(f"    {line}\n" for line in lines), "  }\n"))


def mirror(folder: Path, *, include: Iterable[str] = ()) -> Method:
    return Method("filesystem_mirror", str(folder), include=tuple(include))


def configured(environment: Mapping[str, str], home: Path) -> list[Method] | None:
    """Return the installation methods of the user's configuration, or None if it does not name any."""
    named = environment.get("TF_CLI_CONFIG_FILE")
    file = Path(named) if named else home / ".terraformrc"
    if not file.is_file():
        return None
    found = _INSTALLATION.search(_COMMENT.sub("", file.read_text(encoding="utf-8")))
    return [_method(kind, body) for kind, body in _METHOD.findall(found[1])] if found else None


def on_this_machine(
    environment: Mapping[str, str], home: Path, *, needed: Collection[str], root: Path = Path("/")
) -> list[Method]:
    """Return the mirrors on this machine, and the network for providers that none of them has."""
    standard = [folder for folder in _standard_folders(environment, home) if (folder / REGISTRY).is_dir()]
    complete = set(needed) <= {provider for folder in standard for provider in providers_in(folder)}
    folders = standard if complete else list(dict.fromkeys((*standard, *_in_usual_places(root))))
    here = sorted({provider for folder in folders for provider in providers_in(folder)})
    return [*map(mirror, folders), Method("direct").without(here)]


def providers_in(folder: Path) -> list[str]:
    """Return the addresses of a mirror's providers, such as `registry.terraform.io/hashicorp/aws`."""
    return [str(found.relative_to(folder)) for found in (folder / REGISTRY).glob("*/*") if found.is_dir()]


def _standard_folders(environment: Mapping[str, str], home: Path) -> Iterator[Path]:
    """Return Frazil's mirror folder and those that Terraform searches by default."""
    if environment.get(MIRROR_VARIABLE):
        yield _mirror_root(Path(environment[MIRROR_VARIABLE]).absolute())
    yield home / ".terraform.d" / "plugins"
    data = environment.get("XDG_DATA_HOME") or str(home / ".local" / "share")
    for folder in (data, *(environment.get("XDG_DATA_DIRS") or "/usr/local/share:/usr/share").split(":")):
        yield Path(folder) / "terraform" / "plugins"


def _mirror_root(folder: Path) -> Path:
    """Return the root of a mirror, which contains `registry.terraform.io`, also for that folder itself."""
    return folder.parent if folder.name == REGISTRY else folder


@functools.cache
def _in_usual_places(root: Path) -> tuple[Path, ...]:
    """Return the mirrors in usual places, cached because each stack needs them."""
    return tuple(found for place in USUAL_PLACES for found in sorted(_mirrors_under(root / place, DEEPEST)))


def _mirrors_under(folder: Path, depth: int) -> Iterator[Path]:
    try:
        inside = [entry for entry in folder.iterdir() if entry.is_dir() and not entry.is_symlink()]
    except OSError:
        return
    if any(entry.name == REGISTRY for entry in inside):
        yield folder
    elif depth:
        for entry in inside:
            if entry.name != ".terraform":
                yield from _mirrors_under(entry, depth - 1)


def _method(kind: str, body: str) -> Method:
    place = re.search(r'(?:path|url)\s*=\s*"([^"]*)"', body)
    return Method(kind, place[1] if place else "", _listed("include", body), _listed("exclude", body))


def _listed(name: str, body: str) -> tuple[str, ...]:
    found = re.search(rf"{name}\s*=\s*\[([^\]]*)\]", body)
    return tuple(re.findall(r'"([^"]*)"', found[1])) if found else ()
