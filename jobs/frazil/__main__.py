"""`python -m frazil`, and the program that spark-submit is given: `frazil` as a file."""

from __future__ import annotations

import sys
from pathlib import Path

if sys.path[0] == str(Path(__file__).parent):  # run by its path, which would offer our modules under their short names
    del sys.path[0]

from frazil.cli.app import main

if __name__ == "__main__":
    main()
