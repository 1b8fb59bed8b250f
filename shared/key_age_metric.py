"""The metric of how old keys are, as CloudWatch knows it: in days, by secret, and the oldest of an environment."""

from __future__ import annotations

NAMESPACE, METRIC = "Frazil", "KeyAgeDays"
BY_ENVIRONMENT, BY_SECRET = "Environment", "Secret"
