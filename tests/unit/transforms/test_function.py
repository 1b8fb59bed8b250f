"""The code of a transformation in Python: which modules are hashed."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from frazil.model.transforms import TransformSpec
from frazil.transforms.function import code_of

FILES = {
    "jobs_of_orders/__init__.py": "from . import prices\n",
    "jobs_of_orders/cleaning.py": "import json\nfrom .rates import RATES\n\ndef valid(orders):\n    return orders\n",
    "jobs_of_orders/rates.py": "from constants_of_orders import BASE\nimport jobs_of_orders.cleaning\nRATES = BASE\n",
    "jobs_of_orders/prices.py": "PRICE = 1\n",
    "constants_of_orders.py": "BASE = 1\n",
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.delitem(sys.modules, "jobs_of_orders", raising=False)
    (tmp_path / "jobs_of_orders").mkdir()
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    return tmp_path


def code(folder: Path, function: str = "jobs_of_orders.cleaning:valid") -> str:
    return code_of(TransformSpec("f.yaml", "n", "d", "t", "d.s", function=function, folder=str(folder)))


@pytest.mark.parametrize("name", FILES)
def test_each_module_of_the_folder_that_is_imported_belongs_to_the_code(folder: Path, name: str) -> None:
    before = code(folder)
    (folder / name).write_text(FILES[name] + "# changed\n")

    assert code(folder) != before


def test_other_modules_do_not(folder: Path) -> None:
    before = code(folder)
    (folder / "others.py").write_text("X = 1\n")

    assert code(folder) == before
    assert code(folder, "constants_of_orders:f") == FILES["constants_of_orders.py"], "a module alone is its text"
