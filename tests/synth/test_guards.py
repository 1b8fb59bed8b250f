"""A synthesis that breaks a rule fails, and writes nothing; tests/unit/infra/test_rules.py breaks each rule."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from frazil.model.errors import SettingError
from infra.cdk import App, LocalBackend, Stack
from infra.guards.aspect import synthesize
from infra.guards.rules import StackView, Violation
from infra.resources import aws
from shared.naming import tags


def stack_of(app: App, name: str) -> Stack:
    stack = Stack(app, name)
    LocalBackend(stack, path="x.tfstate")
    aws.Provider(stack, "aws", region="eu-west-1", default_tags=aws.Provider_DefaultTags(tags=tags("dev", name, {})))
    return stack


def test_all_stacks_are_looked_at_before_anything_is_written(tmp_path: Path) -> None:
    out = tmp_path / "out"
    app = App(outdir=str(out))
    aws.SnsTopic(stack_of(app, "first"), "alarms", name="alarms")
    aws.CloudwatchLogGroup(stack_of(app, "second"), "logs", name="logs", kms_key_id="alias/x")

    with pytest.raises(SettingError) as caught:
        synthesize(app, production=False)

    assert str(caught.value) == (
        "The stacks break the rules 2 times; nothing was written.\n\n"
        "first/alarms: encryption: it is not encrypted\n"
        "    give kms_master_key_id\n"
        "second/logs: log_retention: it keeps logs for ever\n"
        "    give retention_in_days=settings.log_retention_days\n\n"
        "hint: infra/guards/rules.py says what each rule is for"
    )
    assert not list(out.rglob("cdk.tf.json"))


def test_production_is_held_to_more(tmp_path: Path) -> None:
    app = App(outdir=str(tmp_path / "out"))
    database = stack_of(app, "first")
    aws.GlueCatalogDatabase(database, "database", name="lkc_1")

    with pytest.raises(
        SettingError, match="first/database: deletion_protection: it holds data, and a plan may delete it"
    ):
        synthesize(app, production=True)


def test_a_failure_that_is_no_finding_is_told_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def defective(view: StackView) -> Iterator[Violation]:
        raise KeyError(view.name)

    monkeypatch.setattr("infra.guards.aspect.RULES", (defective,))
    app = App(outdir=str(tmp_path / "out"))
    stack_of(app, "first")

    with pytest.raises(KeyError, match="first"):
        synthesize(app, production=False)
