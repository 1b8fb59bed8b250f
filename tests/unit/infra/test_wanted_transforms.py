from __future__ import annotations

from pathlib import Path

import pytest

from frazil.model.errors import SettingError
from frazil.specs.load import load_tables
from infra.wanted.exports import OF_THE_ENVIRONMENT
from infra.wanted.transforms import wanted_transforms


def wanted(folder: Path, text: str) -> list[str]:
    specs, transforms = folder / "tables", folder / "transforms"
    for each in (specs, transforms):
        each.mkdir()
    (specs / "trades.yaml").write_text("topic: trades\nwrite: append\n")
    (transforms / "large.yaml").write_text(text)
    (transforms / "cleaning.py").write_text("def valid(trades): return trades\n")
    tables = load_tables(specs, {}, database=OF_THE_ENVIRONMENT, catalog_type="glue")
    return [spec.identifier for spec in wanted_transforms(transforms, {}, tables)]


@pytest.mark.parametrize("how", ["sql: SELECT * FROM trades", "python: transforms.cleaning:valid"])
def test_transformations_of_the_environments_tables_are_run(tmp_path: Path, how: str) -> None:
    assert wanted(tmp_path, f"from: trades\n{how}\n") == ["of_the_environment.large"]


@pytest.mark.parametrize(
    ("how", "says", "hint"),
    [
        ("sql: SELECT * FROM trades\ndatabase: other", "found other.large", "without a database"),
        ("sql: SELECT * FROM trades\njoins: [other.users]", "found other.users", "without a database"),
        ("python: cleaning:valid", "modules of transforms/ only, found cleaning", "write transforms.cleaning:"),
        ("python: transforms.lost:valid", "there is no module transforms.lost", "transforms/lost.py"),
    ],
)
def test_what_cannot_run_in_the_cloud_is_refused(tmp_path: Path, how: str, says: str, hint: str) -> None:
    with pytest.raises(SettingError, match=says) as refused:
        wanted(tmp_path, f"from: trades\n{how}\n")

    assert hint in refused.value.hint
