"""The wheel alone, as a user installs it: no checkout, and no package but those that it declares."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from breadth import Place, encode, record_of
from installed import Installed, build_wheel, compiled_wheel, install

from tests.sampling import sampled

SCHEMA = record_of(("n", "long"))


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_wheel(tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def plain(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """`pip install frazil`: no extra."""
    return install(wheel, tmp_path_factory.mktemp("plain") / "env")


def test_without_any_extra_a_topic_becomes_a_table(plain: Installed, place: Place) -> None:
    topic = place.topic()
    schema_id = place.register(f"{topic}-value", SCHEMA)
    place.send(topic, *encode(SCHEMA, schema_id, *({"n": n} for n in range(10))))
    place.settings(f"topic: {topic}\n")

    shown = plain.run("--help", cwd=place.folder)
    checked = plain.run("check", cwd=place.folder)
    written = plain.run("materialize", "--once", cwd=place.folder)
    proven = plain.run("verify", "--against-kafka", cwd=place.folder)
    asked = plain.run("query", "SELECT 1", cwd=place.folder)

    assert (shown.returncode, "materialize" in shown.stdout) == (0, True), shown.stderr
    assert checked.returncode == 0, checked.stderr
    assert written.returncode == 0, written.stderr
    assert "10 rows" in written.stdout
    assert proven.returncode == 0, proven.stderr
    assert (asked.returncode, "pip install 'frazil[duckdb]'" in asked.stderr) == (1, True)


def test_without_rust_records_are_decoded_in_python_and_with_it_by_the_decoder_in_the_same_wheel(
    plain: Installed, tmp_path: Path
) -> None:
    compiled = compiled_wheel()
    if compiled is None:
        pytest.skip("there is no native decoder: `make setup` compiles it where Rust is")
    code = "from frazil.formats.native import native_available; print(native_available())"

    said = [
        subprocess.run([each.python, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True).stdout
        for each in (plain, install(compiled, tmp_path / "env"))
    ]

    assert said == ["False\n", "True\n"]


@pytest.mark.parametrize("command", sampled(("demo", "--version"), lambda command: command == "--version"))
def test_the_extra_local_brings_all_that_the_demo_needs(command: str, wheel: Path, tmp_path: Path) -> None:
    """A long run plays the demo; otherwise all that it imports is there."""
    local = install(wheel, tmp_path / "env", "local")
    modules = ["frazil.demo.story", "frazil.demo.victim", "frazil.query", "frazil.local.aws_double.server"]
    code = f"import importlib, json; print(json.dumps([importlib.import_module(m).__file__ for m in {modules}]))"

    ended = subprocess.run(
        [local.python, "-W", "ignore", "-c", code],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=200,
    )

    started = local.run(command, cwd=tmp_path, timeout=900)

    assert ended.returncode == 0, ended.stderr
    assert (started.returncode, started.stdout != "") == (0, True), started.stderr
    assert all(Path(file).is_relative_to(local.folder) for file in json.loads(ended.stdout))
