"""Refuse to synthesize the stacks while their folders have a state, which may be the only record of resources."""

from __future__ import annotations

import shlex
from pathlib import Path

from infra.deploy.accounts.account_record import STATE
from infra.deploy.deployment import Deployment
from infra.settings.model import HcpState
from infra.terraform.process import DEFAULT_WORKSPACE, typed
from infra.terraform.runner import TerraformError

ERRORED = "errored.tfstate"
"""The file into which Terraform writes a state that its backend did not take."""
OF_WORKSPACES = "terraform.tfstate.d"
"""The folder into which Terraform writes local states of workspaces other than the default one."""


def refuse_unsaved_states(deployment: Deployment) -> None:
    """Raise TerraformError if a state would be deleted with the synthesized stacks."""
    stacks = deployment.synthesized / "stacks"
    for unsaved in sorted(stacks.glob(f"*/{ERRORED}")):
        raise TerraformError(
            f"the state of the stack {unsaved.parent.name} was not saved: {unsaved} is the only record of what the"
            " last run created",
            hint=_push(deployment, unsaved),
        )
    for other in sorted(stacks.glob(f"*/{OF_WORKSPACES}/*/*.tfstate")):
        stack = other.relative_to(stacks).parts[0]
        raise TerraformError(
            f"the state of the stack {stack} is in the Terraform workspace {other.parent.name}, which Frazil does not"
            f" use: {other}",
            hint=_move(other, deployment.folder / STATE / f"{stack}.tfstate"),
        )


def _push(deployment: Deployment, unsaved: Path) -> str:
    terraform = typed(unsaved.parent, _variables(deployment, unsaved.parent.name))
    return (
        f"log in again, then run `{terraform} state push {ERRORED} && rm {shlex.quote(str(unsaved))}`, which deletes "
        "the file only after its state is saved, and rerun the same command. If the push reports a lock and no other "
        f"run is at work, first run `{terraform} force-unlock LOCK_ID` with the ID that it shows"
    )


def _variables(deployment: Deployment, stack: str) -> dict[str, str | None]:
    return {
        **deployment.cloud.aws_variables(deployment.profile, None),
        "TF_DATA_DIR": str(deployment.terraform_data(stack)),
        **({} if isinstance(deployment.settings.backend, HcpState) else {"TF_WORKSPACE": DEFAULT_WORKSPACE}),
    }


def _move(other: Path, state: Path) -> str:
    if not state.exists():
        move = shlex.join(("mv", str(other), str(state)))
        return f"run `mkdir -p {shlex.quote(str(state.parent))} && {move}`, then rerun the same command"
    listed = shlex.join(("terraform", "state", "list", f"-state={other}"))
    return (
        f"the stack has a state of its own too, {state}. `{listed}` lists what the other one has: delete these "
        "resources by hand unless they are in both, then move the file elsewhere and rerun the same command"
    )
