"""Frazil as `pip install frazil` gives it to a user: its wheel, and the packages that the wheel declares, no others."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import Distribution, distributions
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
NOT_SOURCES = shutil.ignore_patterns("__pycache__", "*.egg-info", "*.so", "target")
SOURCES = ("pyproject.toml", "MANIFEST.in", "README.md", "LICENSE", "jobs", "native")

COMPILED = ROOT / "native" / "target" / "install"
"""Where `make setup` puts a wheel with the native decoder."""


@dataclass(frozen=True, slots=True)
class Installed:
    """An environment in `folder` that holds the wheel and the closure of its requirements with some extras."""

    folder: Path

    @property
    def python(self) -> Path:
        return self.folder / "bin" / "python"

    @property
    def program(self) -> Path:
        return self.folder / "bin" / "frazil"

    def run(self, *arguments: str, cwd: Path, timeout: float = 200) -> subprocess.CompletedProcess[str]:
        env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        return subprocess.run(
            [self.program, *arguments], cwd=cwd, env=env, capture_output=True, text=True, timeout=timeout, check=False
        )


def build_wheel(folder: Path) -> Path:
    """Build the wheel where no Rust is, from a copy, because a build leaves files beside the sources."""
    copy, no_programs = folder / "sources", folder / "no-programs"
    for each in (copy, no_programs):
        each.mkdir()
    for name in SOURCES:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(
                source, copy / name, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info", "*.so", "target")
            )
        else:
            shutil.copy(source, copy / name)
    without_rust = {**os.environ, "PATH": str(no_programs)}
    _pip("wheel", "--no-build-isolation", "--wheel-dir", str(folder), str(copy), env=without_rust)
    return next(folder.glob("frazil-*.whl"))


def compiled_wheel() -> Path | None:
    """Return the wheel with the native decoder; None where none could be compiled."""
    return next(COMPILED.glob("frazil-*.whl"), None)


def install(wheel: Path, folder: Path, *extras: str) -> Installed:
    """Make an environment with the wheel and what it requires, linked from the packages of this interpreter.

    Nothing is downloaded, so the test needs no network; an undeclared package is still missing.
    """
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True, timeout=120)
    site = next(folder.glob("lib/python*/site-packages"))
    _pip("install", "--target", str(site), str(wheel))
    frazil = next(iter(distributions(name="frazil", path=[str(site)])))
    for needed in closure(frazil, set(extras)):
        _link(needed, site)
    program = folder / "bin" / "frazil"
    program.write_text(f"#!{folder}/bin/python\nfrom frazil.cli.app import main\nmain()\n")
    program.chmod(0o755)
    return Installed(folder)


def closure(frazil: Distribution, extras: set[str]) -> list[Distribution]:
    """Return what a resolver would install for frazil with these extras. Raises KeyError for a missing one."""
    here = {canonicalize_name(each.name): each for each in distributions()}
    found: dict[str, Distribution] = {}
    ahead: list[tuple[Distribution, frozenset[str]]] = [(frazil, frozenset(extras))]
    seen: set[tuple[str, frozenset[str]]] = set()
    while ahead:
        dist, wanted = ahead.pop()
        for requirement in _required(dist, wanted):
            name = canonicalize_name(requirement.name)
            needed = frazil if name == "frazil" else here[name]
            assert requirement.specifier.contains(needed.version), f"{requirement}: found {needed.version}"
            step = (name, frozenset(requirement.extras))
            if step not in seen:
                seen.add(step)
                found[name] = needed
                ahead.append((needed, frozenset(requirement.extras)))
    found.pop("frazil", None)
    return list(found.values())


def _required(dist: Distribution, extras: frozenset[str]) -> Iterator[Requirement]:
    for text in dist.requires or ():
        requirement = Requirement(text)
        contexts = [{"extra": extra} for extra in ("", *extras)]
        if requirement.marker is None or any(requirement.marker.evaluate(context) for context in contexts):
            yield requirement


def _link(dist: Distribution, site: Path) -> None:
    tops = {file.parts[0] for file in dist.files or () if file.parts[0] not in ("..", "__pycache__")}
    for top in tops:
        place = site / top
        if not place.exists():
            place.symlink_to(Path(str(dist.locate_file(top))))


def _pip(*arguments: str, env: Mapping[str, str] | None = None) -> None:
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", *arguments]
    subprocess.run([*command, "--no-deps", "--no-index"], check=True, timeout=300, env=env)
