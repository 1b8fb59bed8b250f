"""The zip of a Lambda function that needs more than boto3: its packages, and the modules of ours that it imports.

Packages come by hash from the `requirements.lock` of the function's folder, as wheels for the machines that Lambda runs
on rather than for the one that packs. Our modules are found by following the imports from `handler.py`, so that the zip
holds what the function uses and a change elsewhere does not change it. The same sources give the same bytes.
"""

from __future__ import annotations

import ast
import hashlib
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

from frazil.model.errors import SettingError
from infra.artefacts.archive import files_under, zip_of
from infra.artefacts.environment import Target, install_packages

OURS = {"frazil": "jobs", "lambdas": ".", "shared": "."}
"""Our packages, each with the folder of the checkout that holds it."""

LOCK = "requirements.lock"
ENTRY = "handler.py"
"""At the top of the zip, so that the handler is called `handler.handler` as in every function of ours."""

NEVER_RUN = ("tests", "test", "*.pyi", "*.pyx", "*.pxd", "*.h", "*.c", "*.cpp")
"""Of packages: what is in them for those who build or type-check with them."""

UNUSED_IN: Mapping[str, tuple[str, ...]] = {
    "hive_metastore": ("*",),
    "pyarrow": ("include", "includes", "src", "*.pxi", "*flight*", "_substrait*", "*_cpp_tests*", "*.so.*.*.*"),
    "pygments": ("*",),
}
"""Of a package: large parts that nothing of ours imports, such as Arrow's network server; a library that has two names
is packed under one. `libarrow_substrait` must stay: Arrow's core is linked with it."""

MOST_BYTES = 250_000_000
"""The greatest size of an unzipped function. Lambda means powers of 1024, which is 5% more."""


def lambda_zip(checkout: Path, function: Path, target: Target, folder: Path) -> Path:
    """The zip of the function in `function`, such as lambdas/rotate_keys; one that is in `folder` stays.

    Raises ServiceError where packages cannot be fetched, SettingError if Lambda would refuse the size.
    """
    packed = place_of(checkout, function, target, folder)
    if not packed.exists():
        packed.parent.mkdir(parents=True, exist_ok=True)
        _pack(dict(_sources(checkout, function)), function / LOCK, target, packed)
    return packed


def place_of(checkout: Path, function: Path, target: Target, folder: Path) -> Path:
    """Return the path of the zip of these sources, which may not exist yet."""
    sources = dict(_sources(checkout, function))
    return folder / _fingerprint(sources, function / LOCK, target) / f"{function.name}.zip"


def modules_of(checkout: Path, start: Path) -> list[Path]:
    """Return the checkout's modules that `start` imports, directly or not, and their packages."""
    found: set[Path] = set()
    ahead = [start]
    while ahead:
        path = ahead.pop()
        if path not in found:
            found.add(path)
            ahead += _imported(checkout, path)
    return sorted(found)


def _imported(checkout: Path, path: Path) -> list[Path]:
    return [file for name in _names(ast.parse(path.read_text("utf-8"))) for file in _files(checkout, name)]


def _names(tree: ast.AST) -> Iterator[str]:
    """Yield every name that may be a module: in `from a import b`, b may or may not be one."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _files(checkout: Path, name: str) -> Iterator[Path]:
    """The module's file and those of the packages around it; nothing for what is not ours."""
    parts = name.split(".")
    if parts[0] not in OURS:
        return
    root = checkout / OURS[parts[0]]
    around = [root.joinpath(*parts[:length], "__init__.py") for length in range(1, len(parts) + 1)]
    yield from (file for file in (*around, root.joinpath(*parts).with_suffix(".py")) if file.is_file())


def _name_in_zip(checkout: Path, file: Path) -> str:
    """Return the path in the zip, where packages are at the top level."""
    path = file.relative_to(checkout)
    return path.relative_to(OURS.get(path.parts[1], ".")).as_posix()


def _sources(checkout: Path, function: Path) -> Iterator[tuple[str, bytes]]:
    handler = function / ENTRY
    module = ".".join(handler.relative_to(checkout).with_suffix("").parts)
    yield ENTRY, f"from {module} import handler\n\n__all__ = ['handler']\n".encode()
    for file in sorted({*modules_of(checkout, handler), *_files(checkout, module)}):
        yield _name_in_zip(checkout, file), file.read_bytes()


def _fingerprint(sources: dict[str, bytes], lock: Path, target: Target) -> str:
    """Return a hash of everything that determines the zip's bytes."""
    digest = hashlib.sha256(repr((target, NEVER_RUN, sorted(UNUSED_IN.items()))).encode())
    for name, content in (*sorted(sources.items()), (LOCK, lock.read_bytes())):
        digest.update(f"{name} {len(content)}\n".encode())
        digest.update(content)
    return digest.hexdigest()[:16]


def _pack(sources: dict[str, bytes], lock: Path, target: Target, packed: Path) -> None:
    packages = packed.with_name("packages")
    shutil.rmtree(packages, ignore_errors=True)
    try:
        install_packages(target, packages, lock)
        _check_size(packed.name, sum(map(len, sources.values())) + sum(file.stat().st_size for file in _used(packages)))
        zip_of(_with_packages(sources, packages), packed)
    finally:
        shutil.rmtree(packages, ignore_errors=True)


def _with_packages(sources: dict[str, bytes], packages: Path) -> Iterator[tuple[str, bytes]]:
    yield from sources.items()
    yield from ((file.relative_to(packages).as_posix(), file.read_bytes()) for file in _used(packages))


def _used(packages: Path) -> Iterator[Path]:
    for file in files_under(packages):
        parts = file.relative_to(packages).parts
        unused = (*NEVER_RUN, *UNUSED_IN.get(parts[0], ()))
        if not any(Path(part).match(pattern) for part in parts for pattern in unused):
            yield file


def _check_size(name: str, size: int) -> None:
    if size > MOST_BYTES:
        raise SettingError(
            f"{name} has {size:,} bytes unzipped, and Lambda takes {MOST_BYTES:,}",
            hint="remove what the function does not import: from its requirements.in, or in UNUSED_IN of"
            " infra/artefacts/lambda_zip.py",
        )
