from __future__ import annotations

import os
import shutil
import tarfile
import zipfile
from pathlib import Path

import pytest

from frazil.model.errors import MissingToolError, SettingError
from infra.artefacts.archive import tar_gz, zip_of
from infra.artefacts.artefact import artefact_of, read_manifest, write_manifest
from infra.artefacts.environment import Target, fingerprint, native_wheel, pack_environment
from infra.artefacts.pack import pack, path_of

X86 = Target("3.11", "x86_64")
ARM = Target("3.11", "arm64")


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout as far as packing looks: a package, a lock, a native wheel, table specs."""
    for name, text in {
        "jobs/frazil/__init__.py": "",
        "jobs/frazil/job_run.py": "print()",
        "jobs/frazil/__pycache__/job_run.pyc": "compiled",
        "jobs/requirements.lock": "numpy==1\n",
        "tables/trades.yaml": "topic: trades\n",
        "tables/notes.txt": "not a spec",
        "transforms/large.yaml": "from: trades\n",
        "transforms/cleaning/valid.py": "def valid(trades): return trades",
        "transforms/trades.jsonl": "{}",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    wheel_of(tmp_path, decoder="compiled", sources="print()")
    return tmp_path


def wheel_of(checkout: Path, *, decoder: str | None, sources: str) -> None:
    """As pip and auditwheel make one: with two tags, and without a decoder where it could not be compiled."""
    file = checkout / "native/target/install/frazil-0.1.0-cp311-abi3-manylinux_2_17_x86_64.manylinux2014_x86_64.whl"
    file.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(file, "w") as wheel:
        wheel.writestr("frazil/job_run.py", sources)
        if decoder is not None:
            wheel.writestr("frazil_native.abi3.so", decoder)


def test_the_same_files_make_the_same_tar_whenever_and_in_whatever_order_they_were_written(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    for folder, names in ((first, "ab"), (second, "ba")):
        folder.mkdir()
        for name in names:
            (folder / name).write_text(name)
    os.utime(second / "a", (0, 0))
    (second / "b").chmod(0o600)

    tar_gz(first, tmp_path / "first.tar.gz")
    tar_gz(second, tmp_path / "second.tar.gz")

    assert (tmp_path / "first.tar.gz").read_bytes() == (tmp_path / "second.tar.gz").read_bytes()


def test_a_tar_holds_every_file_under_its_path_and_who_may_run_it(tmp_path: Path) -> None:
    folder = tmp_path / "packages"
    (folder / "deep").mkdir(parents=True)
    (folder / "deep" / "tool.so").write_text("binary")
    (folder / "deep" / "tool.so").chmod(0o755)
    (folder / "module.py").write_text("x = 1")

    tar_gz(folder, tmp_path / "packed.tar.gz")

    with tarfile.open(tmp_path / "packed.tar.gz") as packed:
        assert {entry.name: entry.mode for entry in packed} == {"deep/tool.so": 0o755, "module.py": 0o644}


def test_the_same_files_make_the_same_zip_in_whatever_order_they_come(tmp_path: Path) -> None:
    zip_of([("a", b"1"), ("b", b"2")], tmp_path / "first.zip")
    zip_of([("b", b"2"), ("a", b"1")], tmp_path / "second.zip")

    assert (tmp_path / "first.zip").read_bytes() == (tmp_path / "second.zip").read_bytes()
    assert not list(tmp_path.glob("*.unfinished"))


def test_a_native_wheel_is_taken_only_for_the_architecture_that_it_was_built_for(checkout: Path) -> None:
    assert native_wheel(checkout, X86) is not None
    assert native_wheel(checkout, ARM) is None


def test_a_target_without_its_native_wheel_is_refused_where_one_is_required(checkout: Path) -> None:
    with pytest.raises(MissingToolError, match="no native decoder for arm64"):
        pack_environment(checkout, ARM, checkout / "environment.tar.gz", native_required=True)


def test_a_wheel_that_was_built_without_rust_has_no_native_decoder(checkout: Path) -> None:
    wheel_of(checkout, decoder=None, sources="print()")

    assert native_wheel(checkout, X86) is None


def test_a_new_lock_or_decoder_is_a_new_environment_and_new_sources_are_not(checkout: Path) -> None:
    before = fingerprint(checkout, X86)
    wheel_of(checkout, decoder="compiled", sources="print('changed')")
    assert fingerprint(checkout, X86) == before
    (checkout / "jobs" / "requirements.lock").write_text("numpy==2\n")
    after_the_lock = fingerprint(checkout, X86)
    wheel_of(checkout, decoder="another", sources="print()")

    assert len({before, after_the_lock, fingerprint(checkout, X86), fingerprint(checkout, ARM)}) == 4


def test_packing_twice_gives_the_same_artefacts_and_a_manifest_that_reads_back(checkout: Path) -> None:
    folder = checkout / "packed"
    environment = folder / fingerprint(checkout, X86) / "environment.tar.gz"
    environment.parent.mkdir(parents=True)
    environment.write_text("installed before")

    specs, transforms = checkout / "tables", checkout / "transforms"

    first = pack(checkout, specs, X86, folder, native_required=True, transforms=transforms)
    second = pack(checkout, specs, X86, folder, native_required=True, transforms=transforms)
    write_manifest(second, folder / "artefacts.json")

    assert first == second == read_manifest(folder / "artefacts.json")
    assert path_of(first.environment, folder) == environment
    assert first.frazil.key == f"artefacts/{first.frazil.sha256}/frazil.zip"


def test_the_packed_sources_and_specs_are_all_that_a_job_run_reads(checkout: Path) -> None:
    folder = checkout / "packed"
    environment = folder / fingerprint(checkout, X86) / "environment.tar.gz"
    environment.parent.mkdir(parents=True)
    environment.write_text("installed before")

    pack(checkout, checkout / "tables", X86, folder, native_required=True, transforms=checkout / "transforms")

    assert zipfile.ZipFile(folder / "frazil.zip").namelist() == ["frazil/__init__.py", "frazil/job_run.py"]
    assert zipfile.ZipFile(folder / "tables.zip").namelist() == ["trades.yaml"]
    assert zipfile.ZipFile(folder / "transforms.zip").namelist() == ["cleaning/valid.py", "large.yaml"]


@pytest.mark.parametrize("lacks", ["the folder", "a spec"])
def test_without_transformations_there_is_no_archive_of_them(checkout: Path, lacks: str) -> None:
    folder = checkout / "packed"
    environment = folder / fingerprint(checkout, X86) / "environment.tar.gz"
    environment.parent.mkdir(parents=True)
    environment.write_text("installed before")
    specs = checkout / "transforms"
    shutil.rmtree(specs) if lacks == "the folder" else (specs / "large.yaml").unlink()

    found = pack(checkout, checkout / "tables", X86, folder, native_required=True, transforms=specs)

    assert found.transforms is None
    assert [each.file for each in found.all] == ["environment.tar.gz", "frazil.zip", "start.py", "tables.zip"]


def test_a_folder_without_a_table_spec_is_refused(checkout: Path) -> None:
    (checkout / "tables" / "trades.yaml").unlink()
    environment = checkout / "packed" / fingerprint(checkout, X86) / "environment.tar.gz"
    environment.parent.mkdir(parents=True)
    environment.write_text("installed before")

    with pytest.raises(SettingError, match="no table spec"):
        pack(checkout, checkout / "tables", X86, checkout / "packed", native_required=True)


def test_a_missing_manifest_says_what_makes_one(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="no manifest") as refused:
        read_manifest(tmp_path / "artefacts.json")

    assert "scripts/deploy.sh plan" in refused.value.hint


def test_the_hash_of_a_file_is_that_of_its_bytes(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"abc")

    assert artefact_of(tmp_path / "a").sha256 == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
