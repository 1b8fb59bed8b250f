"""Write the files that let `frazil` use a deployed environment: `frazil.yaml`, specs and shell variables.

They hold no secrets: `frazil.yaml` refers to secrets by name, and the local credentials are placeholders.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

from infra.deploy.aws_variables import unset_command
from infra.deploy.deployment import Deployment

EXPORT = re.compile(r"^export (\w+)=", re.MULTILINE)


def write_client_files(deployment: Deployment, config: str) -> None:
    """Write the files; `source .frazil/deploy/<environment>/env` then points `frazil` at the environment."""
    deployment.folder.mkdir(parents=True, exist_ok=True)
    deployment.config.write_text(config)
    for specs in (deployment.tables, deployment.transforms):
        _replace_by_copy(deployment.folder / specs.name, specs)
    deployment.env_file.write_text("".join(f"{line}\n" for line in _commands(deployment)))
    deployment.cloud.link_services(deployment)


def delete_client_files(deployment: Deployment) -> tuple[str, ...]:
    """Delete the files of a deleted environment, and return the variables that the shell file has set, if there is one.

    Without `frazil.yaml`, a shell that still has the variables gets an error that names FRAZIL_CONFIG.
    """
    exported = EXPORT.findall(deployment.env_file.read_text()) if deployment.env_file.exists() else []
    deployment.config.unlink(missing_ok=True)
    for specs in (deployment.tables, deployment.transforms):
        shutil.rmtree(deployment.folder / specs.name, ignore_errors=True)
    deployment.env_file.unlink(missing_ok=True)
    return tuple(exported)


def _replace_by_copy(folder: Path, original: Path) -> None:
    """Replace the folder by a rename, so that a concurrent `frazil` never reads a partial copy.

    Without an original there is no copy either.
    """
    copied, last = folder.with_suffix(".new"), folder.with_suffix(".last")
    for left in (copied, last):
        shutil.rmtree(left, ignore_errors=True)
    if original.exists():
        shutil.copytree(original, copied)
    if folder.exists():
        folder.rename(last)
    if copied.exists():
        copied.rename(folder)
    shutil.rmtree(last, ignore_errors=True)


def _commands(deployment: Deployment) -> Iterator[str]:
    """Yield the shell's commands; the first one unsets what would take precedence over the profile."""
    yield unset_command()
    yield f"export FRAZIL_CONFIG='{deployment.config}'"
    for name in deployment.cloud.exported:
        if name in os.environ:
            yield f"export {name}='{os.environ[name]}'"
