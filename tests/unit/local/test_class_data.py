from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from frazil.local import class_data

JAVA = ("/usr/bin/java", "-Xmx1g", "-cp", "a.jar")


@pytest.fixture(autouse=True)
def own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("FRAZIL_CACHE", str(tmp_path / "cache"))


def recorded(folder: Path) -> Path:
    """The archive that a process with these options would write when it ends."""
    (option,) = [each for each in class_data.using_or_recording(JAVA, folder) if "ArchiveClassesAtExit" in each]
    archive = Path(option.partition("=")[2])
    archive.write_bytes(b"classes")
    return archive


def test_an_archive_that_was_kept_is_used_by_the_next_start(tmp_path: Path) -> None:
    recorded(tmp_path)
    assert class_data.using(JAVA) == ()

    class_data.keep(tmp_path)

    (option, *_) = class_data.using_or_recording(JAVA, tmp_path)
    assert Path(option.removeprefix("-XX:SharedArchiveFile=")).read_bytes() == b"classes"
    assert class_data.using(JAVA)[0] == option


def test_what_a_killed_process_left_is_never_used(tmp_path: Path) -> None:
    recorded(tmp_path)

    again = recorded(tmp_path)

    assert [path.name for path in again.parent.iterdir()] == [again.name]
    assert class_data.using(JAVA) == ()


def test_another_java_has_an_archive_of_its_own(tmp_path: Path) -> None:
    recorded(tmp_path)
    class_data.keep(tmp_path)

    assert class_data.using(("/opt/java-21/bin/java", *JAVA[1:])) == ()


def test_nothing_is_kept_where_nothing_was_recorded(tmp_path: Path) -> None:
    class_data.keep(tmp_path)

    assert class_data.using(JAVA) == ()


def test_spark_maps_its_archive_only_where_it_was_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(class_data, "SPARK_ARCHIVE", tmp_path / "my folder" / "spark.jsa")
    assert class_data.spark_options() == ""

    class_data.SPARK_ARCHIVE.parent.mkdir()
    class_data.SPARK_ARCHIVE.touch()

    mapped, *quiet = shlex.split(class_data.spark_options())
    assert mapped == f"-XX:SharedArchiveFile={class_data.SPARK_ARCHIVE}"
    assert quiet == list(class_data.QUIET)
