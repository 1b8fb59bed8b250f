"""The optional compiled module `frazil_native`, which decodes faster than Python."""

from __future__ import annotations

from functools import cache


@cache
def native_available() -> bool:
    """Return whether the module is built for this machine."""
    try:
        import frazil_native  # noqa: F401, PLC0415 - it may not be built
    except ImportError:
        return False
    return True
