"""A topic's name made safe for every reader."""

from __future__ import annotations

import hashlib
import re

LONGEST = 200
"""Glue and Snowflake take 255 characters; room is left for `__dead_letters` and branch names."""


def safe_name(topic: str) -> str:
    """Lower-case snake without dots: `Orders.V1` gives `orders_v1`, `orderItems` gives `order_items`.

    Deterministic, and not one to one: that two topics do not meet is checked across the specs.
    """
    words = re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", topic)
    name = re.sub(r"[^a-z0-9]+", "_", words.lower()).strip("_") or "topic"
    name = f"t_{name}" if name[0].isdigit() else name
    return name if len(name) <= LONGEST else f"{name[: LONGEST - 9]}_{_digest(topic)}"


def _digest(topic: str) -> str:
    return hashlib.sha256(topic.encode()).hexdigest()[:8]
