"""Pack the Python packages that workers of a Spark cluster need, for machines like this one.

    python -m infra.artefacts FILE

It is the archive of a job run on EMR Serverless, for the Python version and the architecture of this process.
"""

from __future__ import annotations

import platform
import shutil
import sys
from pathlib import Path

from frazil.model.errors import FrazilError
from infra.artefacts.environment import Target, fingerprint, pack_environment

CHECKOUT = Path(__file__).parents[2]
PACKED = Path(".frazil/artefacts")


def main(file: Path) -> None:
    """Pack, unless the same packages were packed before, and copy the archive to `file`."""
    target = Target(f"{sys.version_info.major}.{sys.version_info.minor}", _architecture())
    archive = CHECKOUT / PACKED / fingerprint(CHECKOUT, target) / "environment.tar.gz"
    archive.parent.mkdir(parents=True, exist_ok=True)
    wheel = pack_environment(CHECKOUT, target, archive, native_required=False)
    file.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(archive, file)
    decoder = "with" if wheel else "without"
    print(f"{file}: {file.stat().st_size / 1e6:.0f} MB, Python {target.python}, {target.machine}, {decoder} decoder")


def _architecture() -> str:
    """Return this machine's architecture as AWS names it."""
    return {"aarch64": "arm64"}.get(platform.machine(), platform.machine())


if __name__ == "__main__":
    try:
        main(Path(sys.argv[1]))
    except FrazilError as problem:
        sys.exit(str(problem))
