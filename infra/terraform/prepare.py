"""One stack's Terraform on this machine: its variables, and its extra files for the local cloud."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from infra.terraform.environment import STUBS, address, terraform_environment, this_platform
from infra.terraform.override import ready_to_travel, write_override
from infra.terraform.provider_locks import write_lock


class Deployed(Protocol):
    """What is asked of a deployment. `folder` is the environment's own, `checkout` the project's."""

    @property
    def is_local(self) -> bool: ...

    @property
    def folder(self) -> Path: ...

    @property
    def checkout(self) -> Path: ...


def prepare(deployment: Deployed, directory: Path) -> Mapping[str, str]:
    """The variables for Terraform in the folder of a synthesized stack."""
    shared = deployment.checkout / ".frazil" / "terraform"
    if not deployment.is_local:
        write_lock(directory, this_platform())
        ready_to_travel(directory)
        return terraform_environment(os.environ, shared)
    write_lock(directory, this_platform(), without=[address(name) for name in STUBS])
    write_override(directory, states=deployment.folder / "state")
    return terraform_environment(os.environ, shared, stubs=STUBS)
