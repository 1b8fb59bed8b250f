from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark import cloudpickle

from frazil.model.transforms import TransformSpec
from frazil.transforms.function import function_of


def spec_of(function: str, folder: Path) -> TransformSpec:
    return TransformSpec("transforms/x.yaml", "x", "lake", "x", "lake.orders", function=function, folder=str(folder))


def test_workers_that_cannot_import_the_module_get_its_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path])
    folder = tmp_path / "own_transforms"
    folder.mkdir()
    (folder / "prices.py").write_text("def twice(price: int) -> int:\n    return 2 * price\n")
    (folder / "cleaning.py").write_text(
        "from own_transforms.prices import twice\n\n\ndef mapped(price: int) -> int:\n    return twice(price) + 1\n"
    )
    function: Callable[[int], int] = function_of(spec_of("own_transforms.cleaning:mapped", tmp_path))
    sent = cloudpickle.dumps(function)
    for module in [name for name in sys.modules if name.startswith("own_transforms")]:
        del sys.modules[module]
    sys.path.remove(str(tmp_path))

    assert cloudpickle.loads(sent)(20) == 41


def test_modules_of_packages_are_sent_by_name(tmp_path: Path) -> None:
    function = function_of(spec_of("json:dumps", tmp_path))

    assert len(cloudpickle.dumps(function)) < 100
