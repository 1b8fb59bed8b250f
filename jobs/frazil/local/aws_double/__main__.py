"""`python -m frazil.local.aws_double PORT FOLDER`: the process behind `aws` of `frazil local up`."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from frazil.local.aws_double.place import DoubleFolder


def main(port: int, folder: Path) -> None:
    forget_the_users_aws()
    from frazil.local.aws_double.server import serve  # noqa: PLC0415 - botocore reads the profile on import

    serve(DoubleFolder(f"http://127.0.0.1:{port}", folder.absolute()), port)


def forget_the_users_aws() -> None:
    """Remove the user's AWS profile and credentials from the environment of this process and its children."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        del os.environ[name]
    os.environ |= {"AWS_CONFIG_FILE": os.devnull, "AWS_SHARED_CREDENTIALS_FILE": os.devnull}


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]))
