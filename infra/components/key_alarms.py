"""The alarms of key rotation, and the interval at which key ages are measured."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from infra.components.alarms import AlarmSpec, Counted, Measured
from infra.components.job_schedules import Schedule
from infra.components.key_rotation import KeyRotation
from infra.settings.model import EnvironmentSettings
from shared.key_age_metric import BY_ENVIRONMENT, METRIC, NAMESPACE

HOURS = 6
DAYS_OF_GRACE = 3
"""How long a rotation may be late: Secrets Manager tries again for a day or two."""
MINUTES_A_DAY = 24 * 60


def key_alarms(rotation: KeyRotation, settings: EnvironmentSettings) -> Iterator[AlarmSpec]:
    """Yield the alarms. Texts may be Terraform references."""
    yield AlarmSpec(
        word="key-rotation-failed",
        meaning=f"The function {rotation.name} failed, so a key was not rotated; the old one works on. See why in the "
        f"log group {rotation.log_group_name}, and docs/rotation.md for what to do.",
        metric=Counted("AWS/Lambda", "Errors", {"FunctionName": rotation.name}),
        minutes=15,
    )
    most = settings.rotation.days + DAYS_OF_GRACE
    yield AlarmSpec(
        word="key-too-old",
        meaning=f"A key is older than {most} days, or the metric has no values. `scripts/deploy.sh rotate` "
        "rotates now, or says why it cannot.",
        metric=Measured(NAMESPACE, METRIC, {BY_ENVIRONMENT: settings.environment}),
        at_most=most,
        minutes=MINUTES_A_DAY,
    )


def telling_ages(rotation: KeyRotation, secrets: Sequence[str]) -> Schedule:
    asked: dict[str, Any] = {"Step": "tellAges", "Secrets": list(secrets)}
    return Schedule(
        word="tell-key-ages",
        description="Asks how old keys are, for the alarm",
        expression=f"rate({HOURS} hours)",
        target=rotation.arn,
        asked=asked,
    )
