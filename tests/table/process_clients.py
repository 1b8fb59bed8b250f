"""The clients of a process that keeps the table of a transformation."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pytest

from frazil.materialize.clients import Clients
from tests.table.transformed_orders import Orders


@dataclass
class Source:
    """The clients of a process, whose secrets a test replaces."""

    now: Clients
    invalidated: int = 0

    def clients(self) -> Clients:
        return self.now

    def invalidate(self) -> None:
        self.invalidated += 1


def source_of(orders: Orders, runner: Any = None) -> Source:
    unused: Any = None
    return Source(
        Clients(
            lake=orders.lake,
            topics=unused,
            registry=unused,
            runner=runner,
            kafka={},
            registry_settings=None,
            now=lambda: datetime.now(UTC),
            new_id=lambda: "w",
            on_receipt=lambda _: None,
            observe=lambda *_: None,
            delta_logs=lambda: pytest.fail("the table has no Delta log"),
        )
    )
