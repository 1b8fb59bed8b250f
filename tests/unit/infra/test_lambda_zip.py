from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from frazil.model.errors import SettingError
from infra.artefacts import lambda_zip as packing
from infra.artefacts.environment import Target
from infra.artefacts.lambda_zip import lambda_zip, modules_of

ARM = Target("3.13", "arm64")


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two functions, of which one is packed, and packages that are installed elsewhere."""
    files = {
        "lambdas/__init__.py": "",
        "lambdas/turn/__init__.py": "",
        "lambdas/turn/handler.py": "import os\nfrom lambdas.turn import gears\nfrom frazil.model.errors import Error\n",
        "lambdas/turn/gears.py": "def turn():\n    import shared.naming\n",
        "lambdas/turn/unused.py": "",
        "lambdas/turn/requirements.lock": "wheel==1\n",
        "jobs/frazil/__init__.py": "",
        "jobs/frazil/model/__init__.py": "",
        "jobs/frazil/model/errors.py": "",
        "jobs/frazil/model/spec.py": "",
        "shared/__init__.py": "",
        "shared/naming.py": "",
    }
    for name, content in files.items():
        path = tmp_path / "checkout" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)

    def installed(target: Target, folder: Path, *what: str) -> None:
        unused = ("pyarrow/include/api.h", "pyarrow/libarrow_flight.so.1", "pyarrow/lib.so.1.2.3", "pygments/x.py")
        packed = ("wheel/__init__.py", "wheel/tests/test_it.py", "wheel/fast.pyi", "wheel/fast.so", "pyarrow/lib.so.1")
        for name in (*packed, *unused):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(target.architecture)

    monkeypatch.setattr(packing, "install_packages", installed)
    return tmp_path / "checkout"


def test_the_zip_holds_what_the_handler_imports_and_its_packages(checkout: Path, tmp_path: Path) -> None:
    packed = lambda_zip(checkout, checkout / "lambdas" / "turn", ARM, tmp_path / "packed")

    assert packed.name == "turn.zip"
    assert zipfile.ZipFile(packed).namelist() == [
        "frazil/__init__.py",
        "frazil/model/__init__.py",
        "frazil/model/errors.py",
        "handler.py",
        "lambdas/__init__.py",
        "lambdas/turn/__init__.py",
        "lambdas/turn/gears.py",
        "lambdas/turn/handler.py",
        "pyarrow/lib.so.1",
        "shared/__init__.py",
        "shared/naming.py",
        "wheel/__init__.py",
        "wheel/fast.so",
    ]
    assert b"from lambdas.turn.handler import handler" in zipfile.ZipFile(packed).read("handler.py")


def test_a_zip_that_lambda_would_refuse_is_not_made(
    checkout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packing, "MOST_BYTES", 100)

    with pytest.raises(SettingError, match=r"turn\.zip has \d+ bytes unzipped, and Lambda takes 100"):
        lambda_zip(checkout, checkout / "lambdas" / "turn", ARM, tmp_path / "packed")

    assert not list((tmp_path / "packed").rglob("*.zip"))


def test_the_same_sources_give_the_same_bytes_and_are_not_packed_again(checkout: Path, tmp_path: Path) -> None:
    function = checkout / "lambdas" / "turn"
    one, other = (lambda_zip(checkout, function, ARM, tmp_path / name) for name in ("one", "other"))
    made = one.stat().st_mtime_ns

    assert one.read_bytes() == other.read_bytes()
    assert lambda_zip(checkout, function, ARM, tmp_path / "one").stat().st_mtime_ns == made


def test_what_the_function_does_not_import_changes_nothing(checkout: Path, tmp_path: Path) -> None:
    function = checkout / "lambdas" / "turn"
    before = lambda_zip(checkout, function, ARM, tmp_path)

    (checkout / "jobs" / "frazil" / "model" / "spec.py").write_text("changed = True\n")
    same = lambda_zip(checkout, function, ARM, tmp_path)
    (checkout / "shared" / "naming.py").write_text("changed = True\n")
    changed = lambda_zip(checkout, function, ARM, tmp_path)

    assert (same, changed == before) == (before, False)


@pytest.mark.parametrize("change", ["lock", "target"])
def test_other_packages_make_another_zip(checkout: Path, tmp_path: Path, change: str) -> None:
    function = checkout / "lambdas" / "turn"
    before = lambda_zip(checkout, function, ARM, tmp_path)

    if change == "lock":
        (function / "requirements.lock").write_text("wheel==2\n")
    target = ARM if change == "lock" else Target("3.13", "x86_64")

    assert lambda_zip(checkout, function, target, tmp_path) != before


def test_the_rotation_needs_little_of_ours() -> None:
    root = Path(__file__).parents[3]
    found = modules_of(root, root / "lambdas" / "rotate_keys" / "handler.py")
    outside = {path.relative_to(root).as_posix() for path in found if "rotate_keys" not in path.parts}

    assert {path for path in outside if not path.endswith("/__init__.py")} == {
        "shared/accounts.py",
        "shared/confluent_api.py",
        "shared/doubles.py",
        "shared/key_age_metric.py",
        "shared/naming.py",
        "shared/rsa_key.py",
        "shared/secret_tags.py",
        "shared/snowflake_login.py",
        "jobs/frazil/model/errors.py",
        "jobs/frazil/model/loopback.py",
        "jobs/frazil/model/schemas.py",
        "jobs/frazil/model/secret.py",
        "jobs/frazil/model/spelling.py",
    }


def test_the_export_has_the_catalog_that_is_imported_by_its_name_and_no_command() -> None:
    root = Path(__file__).parents[3]
    found = modules_of(root, root / "lambdas" / "export_csv" / "handler.py")
    ours = {path.relative_to(root).as_posix() for path in found}

    assert "jobs/frazil/adapters/iceberg/glue_catalog.py" in ours
    assert not [path for path in ours if path.startswith(("jobs/frazil/cli/", "jobs/frazil/local/", "infra/"))]
