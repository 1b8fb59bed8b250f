"""Write the files beside a stack's synthesized JSON: settings for the double of AWS, or what a remote run leaves out.

Terraform merges `*_override.tf.json` over the rest, so the JSON is the same for a real account. The address of the
double is not in it: the provider reads AWS_ENDPOINT_URL.
"""

from __future__ import annotations

import json
from pathlib import Path

from infra.terraform.states import SYNTHESIZED

FILE = "local_override.tf.json"
IGNORE_FILE = ".terraformignore"
AWS = {
    "s3_use_path_style": True,
    "skip_metadata_api_check": True,
    "max_retries": 2,  # the double answers an unsupported request with 500, which the provider would retry 25 times
}


def write_override(directory: Path) -> None:
    """Configure the AWS provider of the stack in `directory`, if it has one, for the double of AWS."""
    synthesized = json.loads((directory / SYNTHESIZED).read_text(encoding="utf-8"))
    if "aws" in synthesized.get("provider", {}):
        (directory / FILE).write_text(json.dumps({"provider": {"aws": AWS}}, indent=2), encoding="utf-8")


def ready_to_travel(directory: Path) -> None:
    """Exclude files from a remote run, which uploads the whole folder except `.terraform/`.

    The lock file is excluded because it has the hashes of providers for this machine only.
    """
    (directory / FILE).unlink(missing_ok=True)
    (directory / IGNORE_FILE).write_text(f".terraform.lock.hcl\n{FILE}\n", encoding="utf-8")
