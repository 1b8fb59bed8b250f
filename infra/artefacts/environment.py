"""The Python packages of a job run, for the machines that it runs on rather than the one that packs them.

Wheels for the target come by hash from jobs/requirements.lock, whatever this machine is; the native decoder is built
here, so for this machine's architecture only. The interpreter is the one of the release's own image. A job run of the
local cloud gets the installed packages where they have the locked versions.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from frazil.model.errors import MissingToolError, ServiceError
from infra.artefacts.archive import tar_gz
from infra.artefacts.installed import link_installed

LOCK = Path("jobs/requirements.lock")
WHEELS = Path("native/target/install")
DECODER = "frazil_native"
"""The only part of a wheel of frazil that is used: the native decoder. Job runs get the sources separately."""
GLIBC_MINORS = range(17, 35)
"""The manylinux tags that Amazon Linux 2023 (glibc 2.34) takes, as PEP 600 counts them."""
INSTALL_SECONDS = 900


@dataclass(frozen=True, slots=True)
class Target:
    """What the wheels must fit: the version of Python, such as `3.11`, and the architecture as AWS names it."""

    python: str
    architecture: str
    is_here: bool = False
    """Whether it is the interpreter of this process, on this machine: what is installed here fits."""

    @property
    def machine(self) -> str:
        return {"arm64": "aarch64"}.get(self.architecture, self.architecture)

    @property
    def platforms(self) -> tuple[str, ...]:
        return tuple(f"manylinux_2_{minor}_{self.machine}" for minor in reversed(GLIBC_MINORS))


def pack_environment(checkout: Path, target: Target, archive: Path, *, native_required: bool) -> Path | None:
    """Install and pack, unless the archive exists already. Return the native decoder's wheel if it is included.

    Raises MissingToolError where a native decoder is required and none was built for the target, ServiceError where
    packages cannot be fetched.
    """
    wheel = native_wheel(checkout, target)
    if wheel is None and native_required:
        raise _no_wheel(target)
    if not archive.exists():
        _install_and_pack(checkout, target, archive, wheel)
    return wheel


def fingerprint(checkout: Path, target: Target) -> str:
    """Return a hash of everything that determines the content, so that unchanged packages are not installed again."""
    digest = hashlib.sha256(repr(target).encode())
    digest.update((checkout / LOCK).read_bytes())
    wheel = native_wheel(checkout, target)
    for name, content in () if wheel is None else _decoder_in(wheel):
        digest.update(name.encode() + content)
    return digest.hexdigest()[:16]


def native_wheel(checkout: Path, target: Target) -> Path | None:
    """Return the wheel with a native decoder that `make setup` built, if it fits the target."""
    wheels = sorted((checkout / WHEELS).glob("frazil-*.whl"))
    fitting = (wheel for wheel in wheels if not set(_platforms_of(wheel)).isdisjoint(target.platforms))
    return next((wheel for wheel in fitting if any(_decoder_in(wheel))), None)


def _platforms_of(wheel: Path) -> list[str]:
    """Return the platform tags in a wheel's name; there may be several."""
    return wheel.stem.rpartition("-")[2].split(".")


def _decoder_in(wheel: Path) -> Iterator[tuple[str, bytes]]:
    with zipfile.ZipFile(wheel) as content:
        for name in sorted(content.namelist()):
            if name.startswith(f"{DECODER}."):
                yield name, content.read(name)


def _install_and_pack(checkout: Path, target: Target, archive: Path, wheel: Path | None) -> None:
    folder = archive.with_name(archive.name + ".packages")
    shutil.rmtree(folder, ignore_errors=True)
    try:
        install_packages(target, folder, checkout / LOCK)
        for name, content in () if wheel is None else _decoder_in(wheel):
            (folder / name).write_bytes(content)
            (folder / name).chmod(0o755)
        tar_gz(folder, archive)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def install_packages(target: Target, folder: Path, lock: Path) -> None:
    """Install the packages of a lock into `folder` as wheels for the target, independent of this machine.

    Raises ServiceError where they cannot be fetched.
    """
    folder.mkdir(parents=True)
    missing = lock.read_text(encoding="utf-8")
    if target.is_here:
        missing = link_installed(missing, folder)
    if missing:
        _fetch(target, folder, missing)
    _remove_what_depends_on_here(folder)


def _fetch(target: Target, folder: Path, locked: str) -> None:
    command = (sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet", *_fitting(target))
    with tempfile.NamedTemporaryFile("w", suffix=".lock") as lock:
        lock.write(locked)
        lock.flush()
        what = ("--target", str(folder), "--require-hashes", "--requirement", lock.name)
        ended = subprocess.run((*command, *what), capture_output=True, text=True, timeout=INSTALL_SECONDS, check=False)
    if ended.returncode != 0:
        raise ServiceError(
            f"The packages for {target.architecture} cannot be installed: {ended.stderr.strip()[-600:]}",
            hint="is the network up? Run the same command again: what was fetched stays in pip's cache",
        )


def _fitting(target: Target) -> Iterator[str]:
    yield from ("--no-deps", "--no-compile", "--only-binary=:all:", "--implementation", "cp")
    yield from ("--python-version", target.python)
    for abi in (f"cp{target.python.replace('.', '')}", "abi3", "none"):
        yield from ("--abi", abi)
    for platform in target.platforms:
        yield from ("--platform", platform)


def _remove_what_depends_on_here(folder: Path) -> None:
    """Scripts name this machine's interpreter; RECORD and direct_url.json name what was installed from where."""
    shutil.rmtree(folder / "bin", ignore_errors=True)
    for pattern in (
        "*.dist-info/RECORD",
        "*.dist-info/direct_url.json",
        "*.dist-info/REQUESTED",
        "*.dist-info/INSTALLER",
    ):
        for file in folder.glob(pattern):
            file.unlink()


def _no_wheel(target: Target) -> MissingToolError:
    return MissingToolError(
        f"There is no native decoder for {target.architecture} in {WHEELS}: expected a wheel of frazil with {DECODER}",
        hint=f"run `make setup` on an {target.architecture} machine with Rust and a C compiler; see docs/deploy.md",
    )
