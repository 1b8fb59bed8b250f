"""CloudWatch: add PutCompositeAlarm. moto stores and describes composite alarms but lacks this operation."""

from __future__ import annotations

from moto.cloudwatch.responses import CloudWatchResponse


def _put_composite_alarm(response: CloudWatchResponse) -> object:
    return response.put_metric_alarm()


def teach() -> None:
    CloudWatchResponse.put_composite_alarm = _put_composite_alarm
