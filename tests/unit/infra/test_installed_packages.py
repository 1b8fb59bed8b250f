"""The local cloud packs what is installed here, and fetches only the rest."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path

import pytest

from infra.artefacts import environment as packing
from infra.artefacts.environment import Target, install_packages
from infra.artefacts.installed import link_installed

HERE, ELSEWHERE = Target("3.11", "x86_64", is_here=True), Target("3.11", "x86_64")
LOCK = f"""# Made by `make lock`
click=={version("click")} \\
    --hash=sha256:0123 \\
    --hash=sha256:4567
    # via
    #   typer
colorama==0.4.6 ; sys_platform == 'nowhere' \\
    --hash=sha256:89ab
numpy==0.1 ; python_version >= '3' \\
    --hash=sha256:cdef \\
    --hash=sha256:fedc
    # via pyarrow
not-installed-anywhere==1 \\
    --hash=sha256:0000
"""
OTHERS = """numpy==0.1 ; python_version >= '3' \\
    --hash=sha256:cdef \\
    --hash=sha256:fedc
not-installed-anywhere==1 \\
    --hash=sha256:0000
"""


def test_what_is_installed_in_the_locked_version_is_linked_and_the_rest_is_named(tmp_path: Path) -> None:
    others = link_installed(LOCK, tmp_path)

    assert others == OTHERS
    tops = {file.name for file in tmp_path.iterdir()}
    assert tops == {"click", f"click-{version('click')}.dist-info"}
    assert (tmp_path / "click" / "__init__.py").resolve().read_text().startswith('"""')
    assert not list(tmp_path.rglob("*.pyc"))


@pytest.mark.parametrize(("target", "fetched"), [(HERE, OTHERS), (ELSEWHERE, LOCK)])
def test_only_a_target_that_is_this_machine_gets_what_is_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, target: Target, fetched: str
) -> None:
    asked: list[str] = []
    monkeypatch.setattr(packing, "_fetch", lambda _target, _folder, lock: asked.append(lock))
    (tmp_path / "requirements.lock").write_text(LOCK)

    install_packages(target, tmp_path / "packages", tmp_path / "requirements.lock")

    assert asked == [fetched]
    assert (tmp_path / "packages" / "click").exists() is target.is_here


def test_a_package_that_is_installed_as_a_path_to_its_source_is_fetched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    about = tmp_path / "site" / "edited-1.0.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: edited\nVersion: 1.0\n")
    (about / "RECORD").write_text("edited.pth,,\nedited-1.0.dist-info/METADATA,,\n")
    (about / "direct_url.json").write_text('{"url": "file:///source", "dir_info": {"editable": true}}')
    monkeypatch.syspath_prepend(tmp_path / "site")

    assert link_installed("edited==1.0\n", tmp_path / "packages") == "edited==1.0\n"


def test_two_packages_may_bring_one_file(tmp_path: Path) -> None:
    lock = f"click=={version('click')}\n"

    assert link_installed(lock + lock, tmp_path) == ""


def test_a_lock_of_installed_packages_is_packed_without_fetching(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packing, "_fetch", lambda *_: pytest.fail("fetched"))
    (tmp_path / "requirements.lock").write_text(f"click=={version('click')}\n")

    install_packages(HERE, tmp_path / "packages", tmp_path / "requirements.lock")

    assert not list((tmp_path / "packages").glob("*.dist-info/RECORD"))
