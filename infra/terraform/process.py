"""The variables that a Terraform process gets from the shell, and Terraform's commands as a user types them."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path

REDIRECTING = ("TF_WORKSPACE", "TF_CLI_ARGS")
"""Prefixes of variables that give Terraform another state or other arguments."""
LOG, LOG_PATH = "TF_LOG", "TF_LOG_PATH"
WORKSPACE = "TF_WORKSPACE"
TYPED = ("AWS_PROFILE", "TF_DATA_DIR", WORKSPACE)
"""The variables without which a command in a stack's folder does not reach the stack's state."""
DEFAULT_WORKSPACE = "default"


def inherited(shell: Mapping[str, str], *, has_workspaces: bool) -> dict[str, str]:
    """Return the shell's variables for a Terraform process, without those that would lead it to another state.

    The default workspace is named explicitly, because `terraform workspace select` may have recorded another one. With
    HCP Terraform (`has_workspaces`), the stack names its workspace itself.
    """
    kept = {name: value for name, value in shell.items() if not name.startswith(REDIRECTING)}
    return kept if has_workspaces else {**kept, WORKSPACE: DEFAULT_WORKSPACE}


def is_logging(shell: Mapping[str, str]) -> bool:
    """Return whether any variable, such as TF_LOG_CORE, makes Terraform or a provider write a log."""
    return any(value for name, value in shell.items() if name.startswith(LOG) and name != LOG_PATH)


def typed(directory: Path, env: Mapping[str, str | None]) -> str:
    """Return the start of a Terraform command for a stack, to be completed by a subcommand; it works in any folder."""
    variables = (f"{name}={shlex.quote(value)}" for name in TYPED if (value := env.get(name)))
    return " ".join((*variables, "terraform", shlex.quote(f"-chdir={directory}")))
