"""What is asked of registry, catalog and storage, and what follows from a refusal: against services in memory."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Event

import pytest

from frazil.adapters.storage.probe import _hint as storage_hint
from frazil.adapters.storage.warehouse_folder import CATALOG_FILE
from frazil.doctor import catalog
from frazil.doctor.asking import Asking
from frazil.doctor.catalog import ask_tables
from frazil.doctor.clock import compare_clocks
from frazil.doctor.registry import ask_subjects
from frazil.doctor.warehouse import ask_bucket
from frazil.model.errors import CatalogError, RegistryError
from frazil.model.schemas import RegisteredSchema
from frazil.model.settings import CatalogSettings

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)


@dataclass
class Registry:
    answers: Mapping[str, RegisteredSchema | RegistryError]

    def latest(self, subject: str) -> RegisteredSchema | None:
        found = self.answers.get(subject)
        if isinstance(found, RegistryError):
            raise found
        return found

    def by_id(self, schema_id: int) -> RegisteredSchema | None:
        raise NotImplementedError

    def remembers_missing(self, schema_id: int) -> bool:
        raise NotImplementedError

    def subjects_under(self, prefix: str) -> Collection[str]:
        raise NotImplementedError


def refused(status: int) -> RegistryError:
    return RegistryError(f"could not look up the subject: no (HTTP status code {status})", hint=f"fix {status}")


def test_a_registry_that_does_not_know_us_is_asked_once() -> None:
    found = list(ask_subjects(Registry({"a": refused(401)}), ["a", "b"], Asking("registry")))

    assert [(each.what, each.verdict) for each in found] == [("subject a", "failed"), ("subject b", "not asked")]
    assert found[0].hint == "fix 401"


def test_a_registry_that_does_not_exist_is_asked_once() -> None:
    missing = RegistryError("the schema registry r of AWS Glue in us-east-1 does not exist", hint="create it")

    found = list(ask_subjects(Registry({"a": missing}), ["a", "b"], Asking("registry")))

    assert [(each.what, each.verdict, each.hint) for each in found] == [
        ("subject a", "failed", "create it"),
        ("subject b", "not asked", ""),
    ]


def test_a_subject_that_is_forbidden_leaves_the_others() -> None:
    answers = {"a": refused(403), "c": RegisteredSchema(7, "AVRO", "{}", ())}

    found = list(ask_subjects(Registry(answers), ["a", "b", "c"], Asking("registry")))

    assert [each.verdict for each in found] == ["failed", "failed", "ok"]
    assert found[0].hint == "fix 403"
    assert "has no subject b" in found[1].found
    assert found[2].found == "readable, latest schema id 7 (AVRO)"


@dataclass
class Glue:
    """A catalog that refuses to answer."""

    why: str = ""

    def load(self, identifier: str) -> None:
        raise CatalogError(f"could not read the table {identifier}: AccessDeniedException{self.why}", hint="check")


def test_a_table_that_may_not_be_read_is_told_with_the_action() -> None:
    listed = ask_tables(Glue(), ["lake.t"], Asking("catalog"))  # type: ignore[arg-type]

    assert listed.findings[0].verdict == "failed"
    assert "glue:GetTable on lake.t" in listed.findings[0].hint
    assert listed.views == {}


def test_a_table_that_lake_formation_refuses_is_told_with_the_setting() -> None:
    """In the words that the documentation of Lake Formation has for Glue's refusals."""
    glue = Glue(": Insufficient Lake Formation permission(s): Required Describe on t")

    listed = ask_tables(glue, ["lake.t"], Asking("catalog"))  # type: ignore[arg-type]

    assert listed.findings[0].verdict == "failed"
    assert "lake_formation: true" in listed.findings[0].hint
    assert "glue:GetTable" not in listed.findings[0].hint


def test_a_catalog_in_a_file_that_is_slow_is_no_matter_of_the_network(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / CATALOG_FILE).touch()
    monkeypatch.setattr(catalog, "FILE_SECONDS", 0.02)
    monkeypatch.setattr(catalog, "_opened", lambda *_: Event().wait(1) or "late")

    listed = catalog.ask_catalog(CatalogSettings("jdbc", str(tmp_path)), "lake", (), Asking("catalog", seconds=0.01))

    assert (listed.findings[0].verdict, listed.findings[0].found) == ("failed", "no answer within 0.02 s")
    assert "how busy this machine is" in listed.findings[0].hint
    assert "firewall" not in listed.findings[0].hint


@dataclass
class Bucket:
    """Says what it was asked, and refuses some."""

    refuses: frozenset[str]
    asked: list[str] = field(default_factory=list)

    def _step(self, name: str) -> str:
        self.asked.append(name)
        if name in self.refuses:
            raise CatalogError(f"could not {name}", hint="allow it")
        return name

    def list(self) -> str:
        return self._step("list")

    def put(self) -> str:
        return self._step("put")

    def get(self) -> str:
        return self._step("get")

    def remove(self) -> str:
        return self._step("remove")


@pytest.mark.parametrize(
    ("refuses", "asked"),
    [
        ({"list"}, ["list", "put", "get", "remove"]),
        ({"put"}, ["list", "put"]),
        ({"get"}, ["list", "put", "get", "remove"]),
        ({"remove"}, ["list", "put", "get", "remove"]),
    ],
)
def test_what_was_put_is_removed_whatever_else_is_refused(refuses: set[str], asked: list[str]) -> None:
    bucket = Bucket(frozenset(refuses))

    found = list(ask_bucket(bucket, Asking("warehouse")))  # type: ignore[arg-type]

    assert bucket.asked == asked
    assert [each.what for each in found] == ["list", "put", "get", "remove"]
    assert {each.what for each in found if each.verdict == "failed"} == refuses


@pytest.mark.parametrize(
    ("said", "hint"),
    [
        ("AWS Error NO_SUCH_BUCKET during ListObjectsV2", "the bucket does not exist"),
        ("AWS Error ACCESS_DENIED during HeadObject", "s3:GetObject"),
        ("AWS Error NETWORK_CONNECTION", "endpoint"),
    ],
)
def test_what_storage_says_decides_what_to_do(said: str, hint: str) -> None:
    assert hint in storage_hint(said, "s3:GetObject")


def test_clocks_that_differ_are_told_with_their_direction() -> None:
    assert compare_clocks("AWS", theirs=NOON, ours=NOON + timedelta(seconds=3)).found == "3 s apart"
    behind = compare_clocks("AWS", theirs=NOON, ours=NOON - timedelta(minutes=10))
    assert (behind.verdict, behind.found) == ("failed", "this machine is 600 s behind")
