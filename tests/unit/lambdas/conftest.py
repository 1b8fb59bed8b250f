"""What tests of the rotation share."""

from __future__ import annotations

from functools import cache
from itertools import cycle

import pytest
from snowflake_world import POOL, World, new_world

from shared.rsa_key import RsaKey

new_key = RsaKey.new


@pytest.fixture(autouse=True)
def keys_of_a_pool(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys take a while to be born, and to be read; no world needs more of them than the pool has."""
    keys, of_pem = cycle(POOL), cache(RsaKey.of_pem)
    monkeypatch.setattr(RsaKey, "new", staticmethod(lambda bits: next(keys) if bits == 2048 else new_key(bits)))
    monkeypatch.setattr(RsaKey, "of_pem", staticmethod(of_pem))


@pytest.fixture
def world() -> World:
    return new_world()
