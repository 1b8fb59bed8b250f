"""Derive a table name from a topic's name that every engine accepts."""

from __future__ import annotations

import hashlib
import re

LONGEST = 200
"""The maximum length. Glue and Snowflake allow 255 characters; the rest is for `__dead_letters` and branch names."""


def safe_name(topic: str) -> str:
    """Convert to snake_case without dots: `Orders.V1` gives `orders_v1`, `orderItems` gives `order_items`.

    Two topics can give the same name, so a check across the specs reports duplicate tables.
    """
    words = re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", topic)
    name = re.sub(r"[^a-z0-9]+", "_", words.lower()).strip("_") or "topic"
    name = f"t_{name}" if name[0].isdigit() else name
    return name if len(name) <= LONGEST else f"{name[: LONGEST - 9]}_{_digest(topic)}"


def _digest(topic: str) -> str:
    return hashlib.sha256(topic.encode()).hexdigest()[:8]
