"""Both decoders, by name; the native one only where it is built."""

from __future__ import annotations

import pytest

from frazil.formats.native import native_available

needs_native = pytest.mark.skipif(
    not native_available(), reason="the native decoder is not built here (make setup builds it)"
)


@pytest.fixture(params=[pytest.param("native", marks=needs_native), "fallback"])
def engine(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def native() -> None:
    """For tests that compare the two."""
    if not native_available():
        pytest.skip("the native decoder is not built here (make setup builds it)")
