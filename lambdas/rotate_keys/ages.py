"""How old keys are, as a metric: a line of CloudWatch's embedded metric format each, which takes no permission."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from lambdas.rotate_keys.vault import Vault
from shared.key_age_metric import BY_ENVIRONMENT, BY_SECRET, METRIC, NAMESPACE

SECONDS_A_DAY = 86_400


@dataclass(frozen=True, slots=True)
class Age:
    """Of the current key in one secret."""

    secret: str
    days: float

    def line(self, environment: str, now: datetime) -> str:
        """Return a metric line (CloudWatch EMF) by environment and secret, and by environment for the maximum."""
        dimensions = [[BY_ENVIRONMENT], [BY_ENVIRONMENT, BY_SECRET]]
        metric = {"Namespace": NAMESPACE, "Dimensions": dimensions, "Metrics": [{"Name": METRIC}]}
        described = {"Timestamp": int(now.timestamp() * 1000), "CloudWatchMetrics": [metric]}
        values = {BY_ENVIRONMENT: environment, BY_SECRET: self.secret, METRIC: round(self.days, 3)}
        return json.dumps({"_aws": described, **values})


def ages(vaults: Sequence[Vault], now: datetime) -> list[Age]:
    """Return the age of the key in each secret; secrets without a key are left out."""
    made = [(vault.secret, vault.made_at()) for vault in vaults]
    return [Age(secret, (now - at.astimezone(UTC)).total_seconds() / SECONDS_A_DAY) for secret, at in made if at]
