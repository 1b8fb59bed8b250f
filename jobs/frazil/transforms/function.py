"""The function of a transformation in Python, from its module in the folder of frazil.yaml."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from frazil.model.errors import SpecError, TransformHaltedError
from frazil.model.transforms import TransformSpec

Function = Callable[..., Any]

READ_FIRST: dict[tuple[str, str], str] = {}
"""The texts of modules and functions, by folder and name, as this process read them before it ran them.

It imports each module once. The text of a function is that of its modules, so that one which comes or goes is a change.
"""


def code_of(spec: TransformSpec) -> str:
    """Return the text of the function's module and of those that it imports from the folder; empty for SQL.

    Raises SpecError if there is no such module.
    """
    return _code(_texts(spec))


def code_to_run(spec: TransformSpec) -> str:
    """Return `code_of` for a process that runs it.

    Raises TransformHaltedError if a module has changed since this process read it, for this or another transformation.
    """
    texts = _texts(spec)
    code = _code(texts)
    for name, text in {**texts, spec.function: code}.items():
        if READ_FIRST.setdefault((spec.folder, name), text) != text:
            raise TransformHaltedError(
                f"{spec.identifier}: the code of {spec.function} has changed since this process read it, and the"
                " process would run the old code; nothing was published",
                hint=f"restart the process; it says whether `frazil transform rebuild {spec.name}` is needed",
            )
    return code


def _code(texts: dict[str, str]) -> str:
    return next(iter(texts.values()), "") if len(texts) <= 1 else json.dumps(texts, sort_keys=True)


def _texts(spec: TransformSpec) -> dict[str, str]:
    if not spec.function:
        return {}
    name, file = spec.function.partition(":")[0], _module_file(spec)
    texts = {name: file.read_text(encoding="utf-8")}
    _add_imported(texts, name, Path(spec.folder), is_package=file.name == "__init__.py")
    return texts


def _add_imported(texts: dict[str, str], name: str, folder: Path, *, is_package: bool) -> None:
    """Add the modules of the folder that a module imports, and those that these import."""
    package = name if is_package else name.rpartition(".")[0]
    for imported in (*_with_parents(package), *_imported(texts[name], package)):
        at = folder.joinpath(*imported.split("."))
        file = next((each for each in (at.with_suffix(".py"), at / "__init__.py") if each.is_file()), None)
        if imported not in texts and file is not None:
            texts[imported] = file.read_text(encoding="utf-8")
            _add_imported(texts, imported, folder, is_package=file.name == "__init__.py")


def _imported(text: str, package: str) -> Iterator[str]:
    """Yield the full names of what a module of this package may import, with the packages that they are in."""
    try:
        nodes = [*ast.walk(ast.parse(text))]
    except SyntaxError:  # the import of the module says so
        return
    for node in nodes:
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            parents = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            base = ".".join([*parents, *([node.module] if node.module else [])])
            names = [base, *(f"{base}.{alias.name}" if base else alias.name for alias in node.names)]
        else:
            continue
        yield from (each for full in names for each in _with_parents(full))


def _with_parents(name: str) -> Iterator[str]:
    parts = name.split(".") if name else []
    return (".".join(parts[:n]) for n in range(1, len(parts) + 1))


def function_of(spec: TransformSpec) -> Function:
    """Import the module and return the function. Raises SpecError if that fails."""
    _module_file(spec)
    name, _, attribute = spec.function.partition(":")
    try:
        found = getattr(importlib.import_module(name), attribute, None)
    except Exception as problem:
        raise SpecError(
            f"{spec.source_file}: python: the module {name} cannot be imported: {type(problem).__name__}: {problem}",
            hint=f"try it: `python -c 'import {name}'` in {spec.folder}",
        ) from problem
    if not callable(found):
        raise SpecError(
            f"{spec.source_file}: python: the module {name} has no function {attribute}",
            hint=f"define `def {attribute}(…)` in it, or correct the name",
        )
    _send_by_value(name, spec.folder)
    function: Function = found
    return function


def _send_by_value(module: str, folder: str) -> None:
    """Let tasks get the code of modules in this folder with the function: workers of a cluster cannot import them."""
    from pyspark.cloudpickle import register_pickle_by_value  # noqa: PLC0415 - only functions need it

    package = sys.modules[module.partition(".")[0]]
    places = [*getattr(package, "__path__", ()), package.__file__]  # a package without __init__.py has no file
    if any(Path(place).is_relative_to(folder) for place in places if place is not None):
        register_pickle_by_value(package)


def _module_file(spec: TransformSpec) -> Path:
    if spec.folder not in sys.path:
        sys.path.insert(0, spec.folder)
    name = spec.function.partition(":")[0]
    try:
        found = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        found = None
    if found is None or found.origin is None:
        raise SpecError(
            f"{spec.source_file}: python: there is no module {name} in {spec.folder}",
            hint=f"write {Path(spec.folder, *name.split('.'))}.py, or correct the name",
        )
    return Path(found.origin)
