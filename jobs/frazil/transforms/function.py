"""The function of a transformation in Python, from its module in the folder of frazil.yaml."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from frazil.model.errors import SpecError
from frazil.model.transforms import TransformSpec

Function = Callable[..., Any]


def code_of(spec: TransformSpec) -> str:
    """Return the text of the function's module; empty for SQL. Raises SpecError if there is no such module."""
    return "" if not spec.function else _module_file(spec).read_text(encoding="utf-8")


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
    function: Function = found
    return function


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
