"""Test connections to several addresses in parallel."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from frazil.adapters.network import Address, Tls, reach
from frazil.doctor.asking import Asking
from frazil.doctor.finding import Finding, failed
from frazil.model.errors import LocalServicesError
from frazil.model.settings import NOT_RUNNING_HOST

NOT_RUNNING = LocalServicesError(
    "the local service that the configuration refers to is not running",
    hint="run `frazil local up`, or name your own service in the configuration",
)

SLACK_SECONDS = 1.0
"""Added to the time limit, so that the step's own timeout is reported first."""


def ways(asking: Asking, addresses: Sequence[Address], tls: Tls | None) -> list[Finding]:
    patient = replace(asking, seconds=asking.seconds + SLACK_SECONDS)

    def tried(address: Address) -> Finding:
        if address.host == NOT_RUNNING_HOST:
            return failed(asking.part, "local service", NOT_RUNNING)
        return patient.ask(f"way to {address}", lambda: reach(address, tls, seconds=asking.seconds / 2))

    with ThreadPoolExecutor(max(len(addresses), 1)) as pool:
        return list(pool.map(tried, addresses))
