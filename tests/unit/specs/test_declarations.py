"""Every key is declared whole, and what is generated from the declarations agrees with the parser."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from jsonschema import Draft7Validator

from frazil.specs.describe import SETTINGS_PAGE, TABLES_PAGE, Page, json_schema, walk_keys
from frazil.specs.keys import Derived, Key, default_of, nowhere

ROOT = Path(__file__).parents[3]
ALL_KEYS = [(path, key) for page in (SETTINGS_PAGE, TABLES_PAGE) for path, key in walk_keys(page.section)]
each_key = pytest.mark.parametrize(("path", "key"), ALL_KEYS, ids=[path for path, _ in ALL_KEYS])


@each_key
def test_every_key_has_a_sentence(path: str, key: Key[object]) -> None:
    assert key.description[0].isupper()
    assert key.description.endswith(".")


@each_key
def test_every_key_is_required_or_has_a_default(path: str, key: Key[object]) -> None:
    at = nowhere()

    if isinstance(key.default, str):
        default_of(key, at)
    elif isinstance(key.default, Derived):
        assert key.default.sentence

    assert at.problems.found == []


@pytest.mark.parametrize("page", [SETTINGS_PAGE, TABLES_PAGE], ids=["settings", "tables"])
def test_the_schemas_for_editors_are_valid(page: Page) -> None:
    meta = Draft7Validator(Draft7Validator.META_SCHEMA)

    assert list(meta.iter_errors({"type": "nothing"})) != []
    assert list(meta.iter_errors(json.loads(json_schema(page)))) == []


@pytest.mark.parametrize(("page", "file"), [(SETTINGS_PAGE, "frazil.yaml"), (TABLES_PAGE, "tables/stock_trades.yaml")])
def test_editors_find_nothing_wrong_with_the_first_configuration(page: Page, file: str) -> None:
    content = yaml.safe_load((ROOT / file).read_text())

    assert list(Draft7Validator(json.loads(json_schema(page))).iter_errors(content)) == []
