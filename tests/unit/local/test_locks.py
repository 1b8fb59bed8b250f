from __future__ import annotations

import pytest

from frazil.local.locks import FOLDER, Artifact, parse_lock, read_lock
from frazil.model.errors import SettingError

SHA = "ab" * 32


def test_a_line_names_a_jar_and_its_only_accepted_content() -> None:
    text = f"# why\n\norg.example:thing_2.13:1.0 {SHA} 42\n"

    artifacts = parse_lock(text, source="x.lock")

    assert artifacts == (Artifact("org.example", "thing_2.13", "1.0", SHA, 42),)
    assert artifacts[0].file_name == "thing_2.13-1.0.jar"


@pytest.mark.parametrize(
    ("coordinate", "file_name"),
    [
        ("g:a:1", "a-1.jar"),
        ("g:a:1:tar.gz", "a-1.tar.gz"),
        ("g:a:1:tar.gz:all", "a-1-all.tar.gz"),
        ("g:a:1:jar:sources", "a-1-sources.jar"),
    ],
)
def test_a_coordinate_decides_the_file_name_and_reads_back(coordinate: str, file_name: str) -> None:
    (artifact,) = parse_lock(f"{coordinate} {SHA} 1", source="x.lock")

    assert (artifact.file_name, artifact.coordinate) == (file_name, coordinate)


@pytest.mark.parametrize(
    "line",
    [
        f"g:a {SHA} 1",
        f"g:a:1:jar:c:d {SHA} 1",
        f"g::1 {SHA} 1",
        f"g:a:1 {SHA}",
        "g:a:1 abc 1",
        f"g:a:1 {SHA.upper()} 1",
        f"g:a:1 {SHA} -1",
    ],
)
def test_a_malformed_line_is_refused_with_its_place(line: str) -> None:
    with pytest.raises(SettingError, match=r"at x\.lock:2"):
        parse_lock(f"# first\n{line}\n", source="x.lock")


def test_every_lock_of_the_checkout_can_be_read() -> None:
    names = {path.stem for path in FOLDER.glob("*.lock")}

    read = {name: read_lock(name) for name in names}

    assert names == {"broker", "registry", "iceberg", "peers", "connect", "connect_avro", "connect_iceberg", "rest"}
    assert all(read.values())
