"""What it takes to ask about an environment from here: its `frazil.yaml`, the table specs, and whose credentials.

No secret is among it: `frazil.yaml` names them, and the keys of the cloud on this machine are nobody's.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from infra.deploy.deployment import Deployment

SHOWN = ("AWS_PROFILE", "AWS_DEFAULT_REGION")
SHOWN_HERE = ("AWS_DEFAULT_REGION", "AWS_ENDPOINT_URL", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
"""Of the cloud on this machine."""


def write_what_frazil_needs(deployment: Deployment, config: str) -> None:
    """Every verb of `frazil` works on the environment after `source .frazil/deploy/<environment>/env`."""
    deployment.folder.mkdir(parents=True, exist_ok=True)
    deployment.config.write_text(config)
    _replace_by_copy(deployment.folder / "tables", deployment.tables)
    deployment.env_file.write_text("".join(f"export {line}\n" for line in _variables(deployment)))
    services = deployment.folder / ".frazil"  # `frazil local` looks for the services beside its configuration
    if deployment.is_local and not services.exists():
        services.symlink_to(deployment.checkout / ".frazil", target_is_directory=True)


def _replace_by_copy(folder: Path, original: Path) -> None:
    """At one moment, for a `frazil` that reads it meanwhile."""
    copied, last = folder.with_suffix(".new"), folder.with_suffix(".last")
    for left in (copied, last):
        shutil.rmtree(left, ignore_errors=True)
    shutil.copytree(original, copied)
    if folder.exists():
        folder.rename(last)
    copied.rename(folder)
    shutil.rmtree(last, ignore_errors=True)


def _variables(deployment: Deployment) -> Iterator[str]:
    yield f"FRAZIL_CONFIG='{deployment.config}'"
    for name in SHOWN_HERE if deployment.is_local else SHOWN:
        if name in os.environ:
            yield f"{name}='{os.environ[name]}'"
