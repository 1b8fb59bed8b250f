"""Prepare a synthesized stack for Terraform: the files beside it, and the variables of the process."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from infra.terraform.environment import STUBS, address, terraform_environment, this_platform
from infra.terraform.override import ready_to_travel, write_override
from infra.terraform.provider_locks import write_lock


def prepare_for_account(directory: Path, checkout: Path) -> Mapping[str, str]:
    """Prepare the folder of a stack for a real account, and return the variables that Terraform needs."""
    write_lock(directory, this_platform())
    ready_to_travel(directory)
    return terraform_environment(os.environ, _shared(checkout))


def prepare_for_doubles(directory: Path, checkout: Path) -> Mapping[str, str]:
    """Prepare the folder of a stack for the local cloud, and return the variables that Terraform needs."""
    write_lock(directory, this_platform(), without=[address(name) for name in STUBS])
    write_override(directory)
    return terraform_environment(os.environ, _shared(checkout), stubs=STUBS)


def _shared(checkout: Path) -> Path:
    """Return the folder of plugins and configuration that all environments share."""
    return checkout / ".frazil" / "terraform"
