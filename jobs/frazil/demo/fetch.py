"""Download the broker and the registry during the rest of the set-up: `python -m frazil.demo.fetch`."""

from __future__ import annotations

import sys

from frazil.cli.printed_errors import named
from frazil.local.broker import BROKER
from frazil.local.registry import REGISTRY
from frazil.model.errors import FrazilError


def main() -> int:
    try:
        for service in (BROKER, REGISTRY):
            service.fetch()
    except FrazilError as error:
        print(named(error), file=sys.stderr)
        return error.exit_status
    return 0


if __name__ == "__main__":
    sys.exit(main())
