"""Stacks are synthesized once for the same inputs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from infra.deploy.deployment import Deployment, open_deployment
from infra.deploy.stacks.deployed import NONE_PACKED, Stacks
from infra.deploy.stacks.synthesis import Synthesis


@pytest.fixture
def deployment(tmp_path: Path) -> Deployment:
    return replace(open_deployment("dev", "me", asks=False), checkout=tmp_path)


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What was synthesized, and for what."""
    calls: list[dict[str, Any]] = []

    def synthesize(deployment: Deployment, tell: Any, **told: Any) -> Stacks:
        calls.append({"listed": told["listed"], "purpose": told["purpose"]})
        return Stacks(deployment, ("lake",), tell, _states=told["states"])

    monkeypatch.setattr("infra.deploy.stacks.synthesis.synthesize", synthesize)
    return calls


def test_the_same_inputs_are_synthesized_once(deployment: Deployment, written: list[dict[str, Any]]) -> None:
    synthesis = Synthesis(print)

    first = synthesis.stacks(deployment)

    again = replace(deployment)
    assert (synthesis.stacks(again), synthesis.readable(again)) == (first, first)
    assert written == [{"listed": None, "purpose": "apply"}]


def test_each_input_that_changes_is_synthesized(
    deployment: Deployment, written: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    synthesis = Synthesis(print)
    synthesis.stacks(deployment)
    synthesis.stacks(deployment, listed=["trades"])
    synthesis.stacks(deployment, purpose="destroy")
    recorded = replace(deployment, settings=replace(deployment.settings, account_id="111111111111"))
    synthesis.stacks(recorded)
    packed = replace(NONE_PACKED, tables=replace(NONE_PACKED.tables, sha256="1" * 64))
    monkeypatch.setattr("infra.deploy.stacks.synthesis.packed_of", lambda _: packed)
    synthesis.stacks(recorded)

    assert [(each["listed"], each["purpose"]) for each in written] == [
        (None, "apply"),
        (frozenset({"trades"}), "apply"),
        (None, "destroy"),
        (None, "apply"),
        (None, "apply"),
    ]


def test_reading_takes_what_is_synthesized_and_a_delete_synthesizes_nothing_but_what_it_destroys(
    deployment: Deployment, written: list[dict[str, Any]]
) -> None:
    synthesis = Synthesis(print, reads_as="destroy")

    synthesis.readable(deployment)
    synthesis.stacks(deployment, purpose="destroy")
    synthesis.readable(deployment)

    assert written == [{"listed": None, "purpose": "destroy"}]


def test_what_was_read_stays_known_when_stacks_are_synthesized_again(
    deployment: Deployment, written: list[dict[str, Any]]
) -> None:
    synthesis = Synthesis(print)
    synthesis.stacks(deployment)._states.outputs["lake"] = {"bucket_name": "b"}

    assert synthesis.stacks(deployment, listed=[]).outputs("lake") == {"bucket_name": "b"}
    assert len(written) == 2
