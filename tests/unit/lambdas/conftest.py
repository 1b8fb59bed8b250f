"""What tests of the rotation share."""

from __future__ import annotations

from functools import cache
from itertools import cycle

import pytest
from snowflake_world import POOL, World, new_world

from shared.rsa_key import RsaKey

new_key = RsaKey.new
read_key = cache(RsaKey.of_pem)
"""Reading a key takes tens of milliseconds; it is frozen, so that all tests can share it."""


@pytest.fixture(autouse=True)
def keys_of_a_pool(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys take a while to be born, and to be read; no world needs more of them than the pool has."""
    keys = cycle(POOL)
    monkeypatch.setattr(RsaKey, "new", staticmethod(lambda bits: next(keys) if bits == 2048 else new_key(bits)))
    monkeypatch.setattr(RsaKey, "of_pem", staticmethod(read_key))


@pytest.fixture
def world() -> World:
    return new_world()
