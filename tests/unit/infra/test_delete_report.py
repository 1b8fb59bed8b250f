from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

import pytest

from frazil.model.errors import SettingError
from infra.deploy.asked import Asked
from infra.deploy.delete_steps import empty
from infra.deploy.deleting.delete_report import DeleteReport
from infra.deploy.deployment import Deployment, open_deployment
from infra.deploy.stacks.deployed import Stacks

NEVER_ASKED = cast(Any, None)
"""A placeholder for stacks and clients: any use fails with another error."""


def confirm(deployment: Deployment) -> None:
    DeleteReport(deployment, cast(Stacks, NEVER_ASKED), NEVER_ASKED, print).confirm(keeps_data=False)


@pytest.mark.parametrize("step", [confirm, lambda deployment: empty(deployment, Asked((), keeps_data=False))])
def test_in_production_nothing_is_emptied_before_terraform_refuses_to_destroy_it(
    step: Callable[[Deployment], None],
) -> None:
    usual = open_deployment("dev", "me", asks=False)
    deployment = replace(usual, settings=replace(usual.settings, production=True))

    with pytest.raises(SettingError, match="dev is in production and cannot be deleted") as refused:
        step(deployment)

    assert "set `production: false` in" in refused.value.hint
