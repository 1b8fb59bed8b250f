"""What `frazil materialize` refuses, and how it ends with tables that are made only."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from frazil.cli import app, materialize
from frazil.model.errors import CatalogError, FencedError, FrazilError, SubjectMissingError, TopicMissingError

Said = pytest.CaptureFixture[str]


@dataclass
class Run:
    """A fake table that exists or not, and cannot be made if `failure` is set."""

    name: str
    failure: FrazilError | None = None
    there: bool = False
    tables: tuple[Any, ...] = field(init=False)
    clients: Any = field(init=False)

    def __post_init__(self) -> None:
        self.tables = (SimpleNamespace(identifier=self.name),)
        self.clients = SimpleNamespace(lake=SimpleNamespace(load=lambda _: self if self.there else None))

    def create(self) -> None:
        if self.failure is not None:
            raise self.failure


@pytest.fixture
def create(monkeypatch: pytest.MonkeyPatch) -> Any:
    def created(*runs: Run) -> int:
        monkeypatch.setattr(materialize, "_opened", lambda *_, **__: (runs, []))
        return app.run(["materialize", "--create-only"])

    return created


def no_topic(table: str) -> FrazilError:
    return TopicMissingError(f"{table}: no topic", hint="make it")


def no_subject(table: str) -> FrazilError:
    return SubjectMissingError(f"{table}: no subject", hint="register it")


@pytest.mark.parametrize(
    ("given", "said"), [("abc", "write a number and s, m, h or d"), ("0s", "it must be greater than zero")]
)
def test_a_time_that_is_none_is_misuse(given: str, said: str, capsys: Said) -> None:
    assert app.run(["materialize", "--every", given]) == 2

    err = capsys.readouterr().err
    assert err.startswith(f'SettingError: --every: expected a time, found "{given}"\n\nhint: {said}')


@pytest.mark.parametrize("other", [["--once"], ["--every", "3s"]])
def test_making_tables_only_goes_with_no_word_on_batches(other: list[str], capsys: Said) -> None:
    assert app.run(["materialize", "--create-only", *other]) == 2
    assert "SettingError: --create-only excludes --once and --every" in capsys.readouterr().err


def test_tables_that_are_made_are_told_apart_from_those_that_were_there(create: Any, capsys: Said) -> None:
    assert create(Run("lake.a"), Run("lake.b", there=True)) == 0
    assert capsys.readouterr().err == "lake.a: created, empty\nlake.b: exists\n"


def test_what_is_not_there_yet_has_an_exit_status_of_its_own(create: Any, capsys: Said) -> None:
    assert create(Run("lake.a", no_topic("lake.a")), Run("lake.b"), Run("lake.c", no_subject("lake.c"))) == 3
    assert capsys.readouterr().err == (
        "lake.a: failed\nlake.b: created, empty\nlake.c: failed\n"
        "2 tables failed.\n\n"
        "TopicMissingError: lake.a: no topic\n    make it\n"
        "SubjectMissingError: lake.c: no subject\n    register it\n\n"
        "hint: run `frazil materialize --create-only` again after fixing them\n"
    )


def test_any_other_failure_among_them_is_a_failure(create: Any) -> None:
    refused = CatalogError("no", hint="ask")

    assert create(Run("lake.a", no_topic("lake.a")), Run("lake.b", refused)) == 1
    assert create(Run("lake.b", refused)) == 1


def fenced(table: str) -> FrazilError:
    return FencedError(f"{table}: another process published epoch 4", hint="leave it to the other process")


def test_tables_that_others_took_over_are_not_to_be_run_again(create: Any, capsys: Said) -> None:
    assert create(Run("lake.a", fenced("lake.a")), Run("lake.b", fenced("lake.b"))) == 1

    assert capsys.readouterr().err == (
        "lake.a: failed\nlake.b: failed\n"
        "FencedError: 2 tables failed.\n\n"
        "FencedError: lake.a: another process published epoch 4\n"
        "FencedError: lake.b: another process published epoch 4\n\n"
        "hint: leave it to the other process\n"
    )


def test_the_hint_for_several_failures_excepts_tables_that_others_took_over(create: Any, capsys: Said) -> None:
    refused = CatalogError("no", hint="ask")

    create(Run("lake.a", fenced("lake.a")), Run("lake.b", refused))

    assert capsys.readouterr().err.endswith(
        "hint: run `frazil materialize --create-only` again after fixing them;"
        " leave a table with FencedError to the other process\n"
    )
