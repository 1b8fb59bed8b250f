"""The folder of this checkout: what it packs, runs and generates has a path below it."""

from __future__ import annotations

from pathlib import Path

CHECKOUT = Path(__file__).parents[1]
