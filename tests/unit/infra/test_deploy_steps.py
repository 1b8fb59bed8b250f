from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import pytest

from infra.deploy.__main__ import run
from infra.deploy.deployment import Deployment, open_deployment
from infra.deploy.stacks import synthesize
from infra.deploy.steps import STEPS, Asked
from jobs.model.errors import SettingError


@pytest.fixture
def never_packed(tmp_path: Path) -> Deployment:
    """As on another machine than the one that applied the stacks."""
    here = open_deployment("dev", "me", asks=False)
    return replace(here, checkout=tmp_path)


@pytest.mark.parametrize("step", ["apply", "plan"])
def test_a_job_whose_artefacts_were_never_packed_here_is_not_applied(never_packed: Deployment, step: str) -> None:
    with pytest.raises(SettingError, match="no manifest of artefacts"):
        STEPS[step](never_packed, Asked(("jobs",), keeps_data=False))


def test_a_job_whose_artefacts_were_never_packed_here_can_still_be_taken_away(never_packed: Deployment) -> None:
    assert "jobs" in synthesize(never_packed, lambda _: None).names


def test_a_question_is_answered_in_words_and_settings_that_cannot_be_read_are_no_answer(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with patch.dict(os.environ):
        answered = run(["needs-confluent", "--profile=me", "--environment=dev"])
        failed = run(["needs-confluent", "--profile=me", "--environment=no-such-file"])

    assert (answered, failed) == (0, 2)
    assert capsys.readouterr().out == "yes\n"
