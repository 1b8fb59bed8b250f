"""The committed lock files of Terraform's providers: exact versions, and the hashes of what was tested."""

from __future__ import annotations

import re
from collections.abc import Collection
from pathlib import Path

LOCKS = Path(__file__).parents[1] / "locks"
FILE = ".terraform.lock.hcl"
_BLOCK = re.compile(r'^provider "([^"]+)" \{\n.*?^\}\n', re.MULTILINE | re.DOTALL)


def write_lock(directory: Path, platform: str, *, without: Collection[str] = (), locks: Path = LOCKS) -> None:
    """Put the lock file of a platform, such as `linux_amd64`, into a stack's folder, if one is committed.

    `without` are addresses of providers that a stand-in takes the place of. `terraform init` then refuses a package
    with another hash, and adds the hashes of providers that the file does not name.
    """
    file = locks / f"{platform}.hcl"
    if not file.exists():
        return
    blocks = [found[0] for found in _BLOCK.finditer(file.read_text(encoding="utf-8")) if found[1] not in without]
    (directory / FILE).write_text("\n".join(blocks), encoding="utf-8")
