"""Ports that services of one command get."""

from __future__ import annotations

from pathlib import Path

import pytest

from frazil.local import loopback
from frazil.local.loopback import choosing_ports


def test_a_port_is_given_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No service listens on the first one yet, so the operating system may offer it again."""
    first, second = loopback._free_port(), loopback._free_port()
    offered = iter([first, first, second])
    monkeypatch.setattr(loopback, "_free_port", lambda: next(offered))

    with choosing_ports(tmp_path / "claims") as choose:
        chosen = [choose(None), choose(first)]

    assert chosen == [first, second]
