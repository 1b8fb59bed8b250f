"""How the code is cut: short functions, short files, names that say what is inside, one licence."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from pages import ROOT, SOURCES, name_of, nodes_of, parsed, text_of, trees

LONGEST_FUNCTION = 50
LONGEST_FILE = 400
SAYS_NOTHING = {"util", "utils", "helper", "helpers", "common", "manager", "managers", "misc"}
NAMES_OF_AWS = {"secrets_manager"}


def test_no_function_is_longer_than_a_screen() -> None:
    long = [
        f"{name_of(path)}:{node.lineno} {node.name}: {length} lines"
        for path, tree in trees()
        for node in nodes_of(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (length := (node.end_lineno or node.lineno) - node.lineno + 1) > LONGEST_FUNCTION
    ]

    assert long == []


def test_no_file_is_too_long() -> None:
    lengths = {name_of(path): len(text_of(path).splitlines()) for path in SOURCES}

    assert {name: length for name, length in lengths.items() if length > LONGEST_FILE} == {}


def test_names_say_what_is_inside() -> None:
    folders = ("jobs", "infra", "lambdas", "shared", "devcloud", "tests", "bench", "native")
    paths = [path for folder in folders for path in (ROOT / folder).rglob("*") if path.suffix in ("", ".py", ".rs")]
    inside = [path for path in paths if "target" not in path.parts and path.stem not in NAMES_OF_AWS]

    assert [name_of(path) for path in inside if set(path.stem.split("_")) & SAYS_NOTHING] == []


def test_the_licence_is_the_same_everywhere() -> None:
    declared = {
        name: tomllib.loads(text_of(ROOT / name))[table].get("license")
        for name, table in (
            ("pyproject.toml", "project"),
            ("native/Cargo.toml", "package"),
        )
    }
    text = text_of(ROOT / "LICENSE")

    assert set(declared.values()) == {"Apache-2.0"}, declared
    assert re.match(r"\s*Apache License\s+Version 2\.0, January 2004", text)
    assert "END OF TERMS AND CONDITIONS" in text
    assert "Apache-2.0" in text_of(ROOT / "README.md")


def test_no_file_has_a_licence_header_of_its_own() -> None:
    sources = [
        *SOURCES,
        *_tracked_code("tests", "*.py"),
        *_tracked_code("bench", "*.py"),
        *_tracked_code("native", "*.rs"),
    ]
    notice = re.compile(r"SPDX-License|Licensed under|All rights reserved|Copyright \(c\)", re.IGNORECASE)

    with_header = [name_of(path) for path in sources if notice.search("\n".join(text_of(path).splitlines()[:10]))]

    assert with_header == [], "LICENSE speaks for all files"


def _tracked_code(folder: str, pattern: str) -> list[Path]:
    return [path for path in (ROOT / folder).rglob(pattern) if "target" not in path.parts]


@pytest.mark.parametrize(
    ("constant", "in_python", "in_rust"),
    [
        ("HEADER_MEMORY", "jobs/frazil/records.py", "native/src/batch.rs"),
        ("FIRST_STEP", "jobs/frazil/adapters/kafka/partition_consumer.py", "native/src/fetch.rs"),
    ],
)
def test_both_readers_of_kafka_count_with_the_same_numbers(constant: str, in_python: str, in_rust: str) -> None:
    written = re.compile(rf"^(?:const )?{constant}(?:: usize)? = (\d+);?$", re.MULTILINE)

    numbers = [written.findall(text_of(ROOT / path)) for path in (in_python, in_rust)]

    assert numbers[0] == numbers[1]
    assert len(numbers[0]) == 1


def test_no_two_test_files_have_one_name() -> None:
    """The tests are no packages, so pytest cannot distinguish modules of one name."""
    names = [path.name for path in (ROOT / "tests").rglob("*.py") if path.name not in ("conftest.py", "__init__.py")]

    assert sorted(name for name in set(names) if names.count(name) > 1) == []


def test_the_nouns_know_the_standard_library_only() -> None:
    """The contract in pyproject.toml lists what is forbidden; here is what is allowed, which no new package joins."""
    model = [(path, tree) for path, tree in trees() if path.is_relative_to(ROOT / "jobs/frazil/model")]
    strangers = {
        f"{name_of(path)} imports {name}"
        for path, tree in model
        for name in _imports(tree)
        if name.split(".")[0] not in sys.stdlib_module_names and not name.startswith("frazil.model")
    }

    assert model
    assert strangers == set()


EVERYTHING_BUT = {
    "The steps know the vocabulary and the ports, never the adapters": set(),
    "Formats are reached through frazil.formats.open only": set(),
    "shared/ and the functions meet frazil through its vocabulary, and know nothing of stacks": {"model"},
    "infra/ meets frazil through its vocabulary and the reader of specs only": {"model", "specs"},
}
"""Import contracts that name every part of the package but these."""


def test_a_new_part_of_the_package_is_in_every_import_contract() -> None:
    package = ROOT / "jobs" / "frazil"
    parts = {path.parent.name for path in package.glob("*/__init__.py")} | {path.stem for path in package.glob("*.py")}
    contracts = tomllib.loads(text_of(ROOT / "pyproject.toml"))["tool"]["importlinter"]["contracts"]

    named = {
        each["name"]: {part for part in parts if re.search(rf"\bfrazil\.{part}\b", str(each))}
        for each in contracts
        if each["name"] in EVERYTHING_BUT
    }

    assert named == {name: parts - {"__init__"} - left_out for name, left_out in EVERYTHING_BUT.items()}


def _imports(tree: ast.AST) -> Iterator[str]:
    for node in nodes_of(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield "." * node.level + (node.module or "")


OF_THE_LOCAL_CLOUD = re.compile(r"(^|_)(is_(local|real)|stand_ins?|loopback)(_|$)", re.IGNORECASE)
DECIDES = {"infra/deploy/clouds.py"}
"""The one file that may ask which cloud a profile is for."""
DECLARES = {f"infra/settings/{name}.py" for name in ("keys", "snowflake_keys", "file", "scalars")}
"""The keys `stand_in` of an environment's file, and what becomes of them."""
VALIDATES = {
    "jobs/frazil/model/loopback.py",
    "jobs/frazil/specs/catalog_keys.py",
    "jobs/frazil/specs/snowflake_keys.py",
    "lambdas/rotate_keys/surroundings.py",
    "shared/confluent_api.py",
}
"""Refuse to send keys to another machine without TLS; no behaviour depends on it otherwise."""
PLACEHOLDERS = {"jobs/frazil/specs/placeholders.py"}
"""`${local:…}` is one of their kinds."""


def which_cloud(source: str) -> list[str]:
    """Return what asks for the local cloud: such a name, or a comparison of a profile or account with `local`."""
    found = []
    for node in nodes_of(parsed(source)):
        names = [getattr(node, field, None) for field in ("id", "attr", "arg", "name")]
        found += [name for name in names if isinstance(name, str) and OF_THE_LOCAL_CLOUD.search(name)]
        if isinstance(node, ast.Compare):
            found += [text for each in (node.left, *node.comparators) if _is_local(text := ast.unparse(each))]
    return found


def _is_local(operand: str) -> bool:
    return operand in {"'local'", "LOCAL"} or operand.endswith((".LOCAL", "LOCAL.account"))


def test_no_code_asks_whether_it_works_in_the_local_cloud() -> None:
    """What differs is in `AwsCloud` and `LocalCloud`; a setting that names a double is data like any other."""
    asking = {
        name_of(path): found
        for path in SOURCES
        if name_of(path) not in DECIDES | DECLARES | VALIDATES | PLACEHOLDERS and (found := which_cloud(text_of(path)))
    }

    assert asking == {}, "add a property or a method to Cloud in infra/deploy/cloud.py"


@pytest.mark.parametrize(
    "source",
    [
        "if deployment.is_local: pass",
        "def act(*, is_local: bool) -> None: ...",
        "x = None if account.stand_in else 1",
        "def _stand_ins(): ...",
        "if profile == 'local': pass",
        "y = LOCAL != profile",
        "z = cloud is clouds.LOCAL",
        "if urlsplit(url).hostname in LOOPBACK: pass",
        "if is_loopback(url): pass",
    ],
)
def test_a_question_for_the_local_cloud_is_found(source: str) -> None:
    assert len(which_cloud(source)) == 1


def test_local_files_and_words_that_only_contain_the_names_pass() -> None:
    assert which_cloud("is_locale = localhost == 'x'\nlocal_files = standing = backend['local']") == []
