"""Addresses of this machine, the only ones to which keys may be sent without TLS."""

from __future__ import annotations

from urllib.parse import urlsplit

HOSTS = frozenset({"127.0.0.1", "localhost", "::1"})


def is_loopback(url: str) -> bool:
    """Return whether the host of the URL is this machine."""
    return urlsplit(url).hostname in HOSTS
