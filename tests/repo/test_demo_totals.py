"""The table of totals in the demo is the one that this repository ships."""

from __future__ import annotations

from pathlib import Path

import yaml

from frazil.demo.story import TOTALS

ROOT = Path(__file__).parents[2]


def test_the_demo_has_the_shipped_totals() -> None:
    shipped = yaml.safe_load((ROOT / "transforms" / "stock_total_trades.yaml").read_text())

    assert yaml.safe_load(TOTALS) == shipped
