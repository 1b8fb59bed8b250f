"""The Cloud API key as `check` finds it, against the double of Confluent Cloud."""

from __future__ import annotations

from http import HTTPStatus

import pytest
from confluent_in_memory import WHO, Wire, cloud_over

from devcloud.confluent_double import ConfluentDouble, failure
from infra.deploy.checks.cloud_key import WHAT, of_confluent
from infra.deploy.checks.prerequisites import Prerequisite

GIVEN = {"CONFLUENT_CLOUD_API_KEY": WHO.key, "CONFLUENT_CLOUD_API_SECRET": WHO.secret.reveal()}


@pytest.fixture
def double() -> ConfluentDouble:
    return ConfluentDouble(WHO)


@pytest.fixture
def wire(double: ConfluentDouble) -> Wire:
    return Wire(double)


def found(wire: Wire, **given: str) -> Prerequisite:
    return of_confluent(lambda who: cloud_over(wire, [], who), {**GIVEN, **given})


def test_a_key_that_is_known_is_found_with_one_question(wire: Wire) -> None:
    finding = found(wire)

    assert (finding.what, finding.found, finding.is_met) == (WHAT, "CLOUDKEY", True)
    assert len(wire.asked) == 1


def test_a_key_that_is_wrong_is_said_before_anything_is_made(wire: Wire) -> None:
    finding = found(wire, CONFLUENT_CLOUD_API_SECRET="hush")

    assert not finding.is_met
    assert finding.found == "CLOUDKEY was rejected"
    assert "hush" not in finding.line


def test_a_key_that_may_not_list_keys_is_one_all_the_same(wire: Wire, double: ConfluentDouble) -> None:
    double.next_answers.append(failure(HTTPStatus.FORBIDDEN, "Forbidden Access"))

    assert found(wire).is_met


def test_a_cloud_that_does_not_answer_is_a_finding_like_others(wire: Wire) -> None:
    wire.unreachable += ["api.confluent.cloud"] * 9

    finding = found(wire)

    assert not finding.is_met
    assert "did not answer" in finding.found


@pytest.mark.parametrize("missing", GIVEN)
def test_a_key_that_is_not_given_yet_is_no_hindrance(wire: Wire, missing: str) -> None:
    assert found(wire, **{missing: ""}).is_met
    assert wire.asked == []
