"""What a stack's folder gets beside the synthesized JSON, to be applied to the cloud on this machine or to travel.

Terraform merges `*_override.tf.json` over the rest, so the JSON itself is the one that a real cloud would get. Where
AWS answers is not in it: the provider reads AWS_ENDPOINT_URL.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

FILE = "local_override.tf.json"
IGNORE_FILE = ".terraformignore"
SYNTHESIZED = "cdk.tf.json"
CROSS_STACK = "cross-stack-reference-input-"
"""How CDK for Terraform names the state of another stack that this one reads; the stack's name follows."""
AWS = {
    "s3_use_path_style": True,
    "skip_metadata_api_check": True,
    "max_retries": 2,  # what the double does not know it answers with 500, which 25 retries would sit out
}


def write_override(directory: Path, *, states: Path) -> Path:
    """Into the folder of a stack, which has the stack's name. `states` is the folder of all stacks' state files.

    They take the place of whatever backend the environment has, of `cloud` as well.
    """
    synthesized = json.loads((directory / SYNTHESIZED).read_text(encoding="utf-8"))
    written: dict[str, Any] = {"terraform": {"backend": {"local": {"path": _state(states, directory.name)}}}}
    if "aws" in synthesized.get("provider", {}):
        written["provider"] = {"aws": AWS}
    if others := synthesized.get("data", {}).get("terraform_remote_state"):
        read = {name: _read_from(states, name.removeprefix(CROSS_STACK)) for name in others}
        written["data"] = {"terraform_remote_state": read}
    file = directory / FILE
    file.write_text(json.dumps(written, indent=2), encoding="utf-8")
    return file


def ready_to_travel(directory: Path) -> None:
    """A remote run uploads the whole folder, but for what is named here and `.terraform/`.

    The lock file stays: it has the hashes of providers for this machine only, and another kind would refuse them.
    """
    (directory / FILE).unlink(missing_ok=True)
    (directory / IGNORE_FILE).write_text(f".terraform.lock.hcl\n{FILE}\n", encoding="utf-8")


def _read_from(states: Path, stack: str) -> dict[str, Any]:
    return {"backend": "local", "config": {"path": _state(states, stack)}}


def _state(states: Path, stack: str) -> str:
    return str(states.absolute() / f"{stack}.tfstate")
