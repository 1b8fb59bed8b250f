"""CloudWatch alarms and the SNS topic that they notify."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import assert_never

from infra.cdk import Construct
from infra.components.region import Region
from infra.permissions.iam import Policy, Principal, Statement
from infra.resources import aws
from shared import naming


@dataclass(frozen=True, slots=True)
class Counted:
    """A metric of CloudWatch, summed over a period."""

    namespace: str
    name: str
    dimensions: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Measured:
    """A metric of CloudWatch, the greatest of a period."""

    namespace: str
    name: str
    dimensions: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class MetricsQuery:
    """A query of CloudWatch Metrics Insights, for metrics with a dimension whose values are unknown in advance."""

    query: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AlarmSpec:
    """An alarm: by default for any value above 0, else for one below `at_least` or above `at_most`.

    With `at_least` or `at_most`, missing data raises the alarm too, unless it `may_be_missing`. `meaning` is the text
    of the mail: what is wrong and what to do.
    """

    word: str
    meaning: str
    metric: Counted | Measured | MetricsQuery
    at_least: float | None = None
    at_most: float | None = None
    minutes: int = 5
    times: int = 1
    may_be_missing: bool = False

    @property
    def is_without_data(self) -> bool:
        return not self.may_be_missing and (self.at_least is not None or self.at_most is not None)

    @property
    def threshold(self) -> float:
        return next((each for each in (self.at_least, self.at_most) if each is not None), 0)


class Alarms(Construct):
    """The alarms of an environment, with one SNS topic. `mail` is the address that is subscribed to it, if any."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        /,
        *,
        environment: str,
        region: Region,
        key_arn: str,
        mail: str | None,
    ) -> None:
        super().__init__(scope, construct_id)
        self._environment = environment
        self._topic = aws.SnsTopic(
            self, "topic", name=naming.resource_name(environment, "alarms"), kms_master_key_id=key_arn
        )
        self.topic_arn = self._topic.arn
        self.arns: list[str] = []
        aws.SnsTopicPolicy(self, "from-alarms", arn=self.topic_arn, policy=_from_alarms(self.topic_arn, region).json)
        if mail is not None:
            aws.SnsTopicSubscription(self, "mail", topic_arn=self.topic_arn, protocol="email", endpoint=mail)

    def add(self, spec: AlarmSpec) -> None:
        """Create the alarm, which notifies the topic when it begins and when it ends."""
        self.arns.append(add_alarm(self, spec, environment=self._environment, topic_arn=self.topic_arn).arn)


def add_alarm(scope: Construct, spec: AlarmSpec, *, environment: str, topic_arn: str) -> aws.CloudwatchMetricAlarm:
    """Create an alarm that notifies a topic."""
    return aws.CloudwatchMetricAlarm(
        scope,
        spec.word,
        alarm_name=naming.resource_name(environment, spec.word),
        alarm_description=spec.meaning,
        comparison_operator="GreaterThanThreshold" if spec.at_least is None else "LessThanThreshold",
        threshold=spec.threshold,
        evaluation_periods=spec.times,
        treat_missing_data="breaching" if spec.is_without_data else "notBreaching",
        metric_query=_watched(spec),
        alarm_actions=[topic_arn],
        ok_actions=[topic_arn],
    )


def _watched(spec: AlarmSpec) -> aws.CloudwatchMetricAlarm_MetricQuery:
    seconds = spec.minutes * 60
    match spec.metric:
        case Counted(namespace, name, dimensions) | Measured(namespace, name, dimensions):
            metric = aws.CloudwatchMetricAlarm_MetricQuery_Metric(
                namespace=namespace,
                metric_name=name,
                dimensions=dimensions,
                period=seconds,
                stat="Sum" if isinstance(spec.metric, Counted) else "Maximum",
            )
            return aws.CloudwatchMetricAlarm_MetricQuery(id="watched", metric=metric, return_data=True)
        case MetricsQuery(query):
            return aws.CloudwatchMetricAlarm_MetricQuery(
                id="watched", expression=query, period=seconds, label=spec.word, return_data=True
            )
        case _ as unknown:
            assert_never(unknown)


def _from_alarms(topic_arn: str, region: Region) -> Policy:
    """Allow only CloudWatch to publish, for alarms of this account."""
    return Policy(
        (
            Statement(
                sid="FromAlarms",
                principal=Principal(services=("cloudwatch.amazonaws.com",)),
                actions=("sns:Publish",),
                resources=(topic_arn,),
                conditions={"StringEquals": {"aws:SourceAccount": region.account_id}},
            ),
        )
    )
