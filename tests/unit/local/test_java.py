from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from frazil.local import java
from frazil.local.java import Java, find_java, parse_major
from frazil.model.errors import MissingToolError

Install = Callable[..., object]


def put_java(home: Path, version: str) -> Path:
    command = home / "bin" / "java"
    command.parent.mkdir(parents=True)
    command.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    command.chmod(0o755)
    return home


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine without any Java, whose usual folder is `jvm` and whose cache is `cache`."""
    monkeypatch.setattr(java, "_USUAL_FOLDERS", (f"{tmp_path.relative_to('/')}/jvm/*",))
    monkeypatch.setenv("FRAZIL_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    find_java.cache_clear()
    return tmp_path


def offer_download(monkeypatch: pytest.MonkeyPatch, install: Install) -> None:
    monkeypatch.setitem(sys.modules, "jdk", SimpleNamespace(install=install))


def unreachable(version: str, path: str) -> None:
    raise OSError(f"no network for Java {version}")


def test_java_home_comes_first(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put_java(machine / "jvm" / "java-17", "17.0.1")
    monkeypatch.setenv("JAVA_HOME", str(put_java(machine / "mine", "21.0.2")))

    assert find_java() == Java(machine / "mine", 21)


def test_another_major_is_passed_over_and_said(
    machine: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    put_java(machine / "jvm" / "java-17", "17.0.1")
    monkeypatch.setenv("JAVA_HOME", str(put_java(machine / "mine", "11.0.2")))

    assert find_java() == Java(machine / "jvm" / "java-17", 17)
    assert f"Java 11 in {machine / 'mine'} is not used (17 or 21 is required)" in capsys.readouterr().err


def test_a_machine_without_java_gets_one_once(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    offer_download(monkeypatch, lambda version, path: put_java(Path(path) / "jdk-17.0.9+9", "17.0.9"))
    installed = find_java()
    find_java.cache_clear()
    offer_download(monkeypatch, unreachable)

    assert find_java() == installed == Java(machine / "cache" / "jdk" / "jdk-17", 17)


def test_a_machine_that_cannot_get_java_is_told_what_to_install(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put_java(machine / "jvm" / "java-8", "1.8.0_402")
    offer_download(monkeypatch, unreachable)

    with pytest.raises(MissingToolError, match=r"expected Java 17 or 21, found Java 8 in .*no network") as refused:
        find_java()

    assert "JAVA_HOME" in refused.value.hint


@pytest.mark.parametrize(
    ("printed", "major"),
    [
        ('openjdk version "17.0.15" 2025-04-15\nOpenJDK Runtime Environment', 17),
        ('java version "21" 2023-09-19 LTS', 21),
        ('openjdk version "1.8.0_402"', 8),
        ('openjdk version "25-ea" 2025-09-16', 25),
        ('Picked up JAVA_TOOL_OPTIONS: -Dx\nopenjdk version "17.0.1" 2021-10-19', 17),
        ("The operation couldn't be completed. Unable to locate a Java Runtime.", None),
        ("", None),
    ],
)
def test_the_major_version_is_read_from_what_java_prints(printed: str, major: int | None) -> None:
    assert parse_major(printed) == major
