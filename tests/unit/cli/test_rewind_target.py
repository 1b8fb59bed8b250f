"""What `frazil rewind --to` accepts."""

from __future__ import annotations

import pytest

from frazil.cli.rebuild import _target
from frazil.model.errors import SettingError


@pytest.mark.parametrize("text", ["yesterday", "2026-01-31", "orders@3", "orders-0@3,orders-1"])
def test_an_unreadable_point_is_refused_with_how_to_write_one(text: str) -> None:
    with pytest.raises(SettingError, match=f"--to: expected `earliest`.* found {text}") as refused:
        _target(text)

    assert refused.value.hint.endswith("offsets as orders-0@1234,orders-1@990")
