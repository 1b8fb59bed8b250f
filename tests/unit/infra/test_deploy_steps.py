from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

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
