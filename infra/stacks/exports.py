"""The function that runs exports, their schedules, the mails that announce them, and the links in these."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from infra.artefacts.artefact import Artefact
from infra.cdk import App, Output, Stack
from infra.components.alarms import AlarmSpec, Counted, Measured, add_alarm
from infra.components.backends import keep_state
from infra.components.export_links import ExportLinks
from infra.components.job_schedules import JobSchedules, Schedule
from infra.components.python_lambda import Function, PythonLambda, Uploaded
from infra.components.region import enter_region
from infra.components.secret import protected_secret
from infra.components.stored_text import stored_text
from infra.permissions.of_roles import EXPORT, RUNS_EXPORTS, WITH_LINKS, PolicyTarget, Scope, statements
from infra.resources import aws
from infra.settings.model import EnvironmentSettings
from infra.stacks.lake import EXPORTS, LakeStack
from infra.wanted.exports import WantedExport, have_links
from shared import naming

SETTINGS_KEY = "config/exports.json"
"""The object that the function reads at each run. Its name does not follow its content, which names what is made with
the help of the function: the distribution."""

SECONDS = 900
"""The most that Lambda allows."""
MEMORY_MB = 3008
"""The most that a new account has, for its share of processors: 1.7."""
RETRIES, HOURS_OF_RETRIES = 2, 6
"""The most that Lambda allows: a run that is out of time continues twice."""
RETENTION_SECONDS = 14 * 24 * 60 * 60
MOST_NAMED = 20
"""How many tables the function's policy names one by one, of which IAM takes 10,240 characters; more are all tables."""


class ExportsStack(Stack):
    """The stack of the exports. It holds no data: files and manifests are in the bucket, where a window begins anew
    only if it was not finished."""

    def __init__(
        self,
        app: App,
        settings: EnvironmentSettings,
        *,
        lake: LakeStack,
        alarms_topic_arn: str,
        exports: tuple[WantedExport, ...],
        packed: Artefact,
    ) -> None:
        super().__init__(app, "exports")
        keep_state(self, settings)
        self._settings = settings
        self._lake = lake
        self._exports = exports
        self._alarms_topic_arn = alarms_topic_arn
        self._region = enter_region(self, settings)
        self._topics = {export.name: self._topic(export) for export in exports}
        self._failed = self._queue()
        self._link_key = self._secret() if have_links(exports) else None
        self._function = self._make_function(packed)
        lake.grant_tables(self, "exports", role_arn=self._function.role.arn, use="tag")
        self._links = self._make_links()
        ready = self._write_settings()
        self._schedules = self._make_schedules(ready)
        for spec in self._alarms():
            add_alarm(self, spec, environment=settings.environment, topic_arn=alarms_topic_arn)
        self._outputs()

    def _name(self, word: str) -> str:
        return naming.resource_name(self._settings.environment, word)

    def _topic_name(self, export: str) -> str:
        return self._name(f"export-{export}")

    def _topic(self, export: WantedExport) -> aws.SnsTopic:
        topic = aws.SnsTopic(
            self,
            f"topic-{export.name}",
            name=self._topic_name(export.name),
            kms_master_key_id=self._lake.key_arn,
        )
        for address in export.cloud.mail:
            aws.SnsTopicSubscription(
                self, f"mail-{export.name}-{_word_of(address)}", topic_arn=topic.arn, protocol="email", endpoint=address
            )
        return topic

    def _queue(self) -> aws.SqsQueue:
        return aws.SqsQueue(
            self,
            "failed",
            name=self._name("failed-exports"),
            message_retention_seconds=RETENTION_SECONDS,
            sqs_managed_sse_enabled=True,
        )

    def _secret(self) -> aws.SecretsmanagerSecret:
        return protected_secret(
            self,
            "link-key",
            name=naming.link_key_secret_name(self._settings.environment),
            description="The key that signs links to exported files",
            key_arn=self._lake.key_arn,
            region=self._region,
            production=self._settings.production,
        )

    def _make_function(self, packed: Artefact) -> PythonLambda:
        calls = EXPORT | (frozenset() if self._link_key is None else WITH_LINKS)
        function = PythonLambda(
            self,
            "function",
            Function(
                name=self._name("exports"),
                description="Runs an export of Frazil, and announces it",
                code=Uploaded(packed, self._lake.bucket_name),
                timeout_seconds=SECONDS,
                memory_mb=MEMORY_MB,
                environment={"FRAZIL_EXPORTS": f"s3://{self._lake.bucket_name}/{SETTINGS_KEY}"},
                dead_letters=self._failed.arn,
            ),
            may=(*statements(calls, dict(self._scopes())), *self._lake.may_use_catalog_key("write")),
            key_arn=self._lake.key_arn,
            log_retention_days=self._settings.log_retention_days,
        )
        aws.LambdaFunctionEventInvokeConfig(
            self,
            "retries",
            function_name=function.name,
            maximum_retry_attempts=RETRIES,
            maximum_event_age_in_seconds=HOURS_OF_RETRIES * 60 * 60,
            destination_config=aws.LambdaFunctionEventInvokeConfig_DestinationConfig(
                on_failure=aws.LambdaFunctionEventInvokeConfig_DestinationConfig_OnFailure(
                    destination=self._alarms_topic_arn
                )
            ),
        )
        return function

    def _scopes(self) -> Iterator[tuple[PolicyTarget, Scope]]:
        lake = self._lake
        catalog, database, all_tables = lake.catalog_arns
        exported = sorted({each.table for each in self._exports})
        tables = tuple(self._region.arn("glue", f"table/{lake.database_name}/{table}") for table in exported)
        folders = tuple(f"{lake.bucket_arn}/{lake.folder}/{table}" for table in exported)
        files = tuple(f"{folder}/*" for folder in folders)
        metadata = tuple(f"{folder}/metadata/*.metadata.json" for folder in folders)
        if len(exported) > MOST_NAMED:
            tables, files = (all_tables,), (lake.data_arn,)
            metadata = (f"{lake.data_arn}/metadata/*.metadata.json",)
        yield PolicyTarget.TABLE_FILES, Scope(files)
        yield PolicyTarget.OLD_METADATA, Scope(metadata)
        yield PolicyTarget.EXPORT_FILES, Scope((f"{lake.bucket_arn}/{EXPORTS}/*",))
        yield PolicyTarget.EXPORT_SETTINGS, Scope((f"{lake.bucket_arn}/{SETTINGS_KEY}",))
        yield PolicyTarget.BUCKET, Scope((lake.bucket_arn,))
        yield PolicyTarget.KEY_UNDER_S3, Scope((lake.key_arn,), self._region.through("s3"))
        yield PolicyTarget.CATALOG, Scope((catalog,))
        yield PolicyTarget.DATABASE, Scope((database,))
        yield PolicyTarget.TABLES, Scope(tables)
        yield PolicyTarget.EXPORT_TOPICS, Scope((self._region.arn("sns", self._topic_name("*")),))
        yield PolicyTarget.KEY_UNDER_SNS, Scope((lake.key_arn,), self._region.through("sns"))
        yield PolicyTarget.DEAD_LETTERS, Scope((self._failed.arn,))
        yield PolicyTarget.ALARMS_TOPIC, Scope((self._alarms_topic_arn,))
        if self._link_key is not None:
            yield PolicyTarget.LINK_KEY, Scope((self._link_key.arn,))
            yield PolicyTarget.KEY_UNDER_SECRETS, Scope((lake.key_arn,), self._region.through("secretsmanager"))

    def _make_links(self) -> ExportLinks | None:
        if self._link_key is None:
            return None
        return ExportLinks(
            self,
            "links",
            environment=self._settings.environment,
            function=self._function,
            secret=self._link_key,
            bucket_domain=self._lake.bucket_domain,
        )

    def _write_settings(self) -> aws.S3Object:
        """Write what the function reads (lambdas/export_csv/configuration.py)."""
        lake, links = self._lake, self._links
        document = {
            "catalog": {
                "warehouse": lake.warehouse,
                "properties": {"client.region": self._region.name, **self._settings.lake.catalog},
            },
            "links": None
            if links is None
            else {"address": links.address, "key_id": links.key_id, "secret": links.secret},
            "exports": {
                export.name: {
                    "spec": self._spec(export),
                    "topic": self._topics[export.name].arn,
                    "mail": list(export.cloud.mail),
                }
                for export in self._exports
            },
        }
        return stored_text(
            self,
            "settings",
            bucket=lake.bucket_name,
            key=SETTINGS_KEY,
            text=json.dumps(document),
            content_type="application/json",
            key_arn=lake.key_arn,
        )

    def _spec(self, export: WantedExport) -> Mapping[str, Any]:
        spec = replace(
            export.spec,
            source_file=f"exports/{export.name}.yaml",
            table=f"{self._lake.database_name}.{export.table}",
            to=f"s3://{self._lake.bucket_name}/{EXPORTS}",
        )
        return spec.to_json()

    def _make_schedules(self, ready: aws.S3Object) -> JobSchedules:
        schedules = JobSchedules(
            self,
            "schedules",
            environment=self._settings.environment,
            region=self._region,
            group="exports",
            role="export-schedules",
        )
        due = tuple(self._schedule(each, each.cloud.schedule) for each in self._exports if each.cloud.schedule)
        may = statements(RUNS_EXPORTS, {PolicyTarget.FUNCTION: Scope((self._function.arn,))})
        schedules.keep(due, may=may, after=[self._function.ready, ready])
        return schedules

    def _schedule(self, export: WantedExport, expression: str) -> Schedule:
        """Give the function the time at which it was due: its retries export the same window."""
        return Schedule(
            word=f"export-{export.name}",
            description=f"Runs the export {export.name}",
            expression=expression,
            time_zone=export.time_zone,
            target=self._function.arn,
            asked={"export": export.name, "at": "<aws.scheduler.scheduled-time>"},
        )

    def _alarms(self) -> Iterator[AlarmSpec]:
        yield AlarmSpec(
            word="export-failed",
            meaning="An export failed three times: a mail of its own has the name of the export (requestPayload) and "
            f"the error (responsePayload). Its event is also in the queue {self._failed.name}, and the log group is "
            f"{self._function.log_group.name}. Then invoke the function {self._function.name} with the same event, "
            "and purge the queue (docs/exports-in-the-cloud.md).",
            metric=Measured("AWS/SQS", "ApproximateNumberOfMessagesVisible", {"QueueName": self._failed.name}),
        )
        yield AlarmSpec(
            word="export-not-started",
            meaning=f"A schedule of the group {self._schedules.group.name} was given up: it could not invoke the "
            f"function {self._function.name}. The next run does not make up for it: run what was due by hand "
            "(docs/exports-in-the-cloud.md).",
            metric=Counted("AWS/Scheduler", "InvocationDroppedCount", {"ScheduleGroup": self._schedules.group.name}),
        )

    def _outputs(self) -> None:
        Output(self, "export_function", value=self._function.name)
        Output(self, "exports_address", value=f"s3://{self._lake.bucket_name}/{EXPORTS}")
        Output(self, "failed_exports_queue", value=self._failed.url)
        if self._links is not None:
            Output(self, "links_address", value=self._links.address)


def _word_of(address: str) -> str:
    """Return what names the subscription of an address, whatever its place in the list.

    If a place named it, removing one address would make the subscriptions of all after it anew, and each of these would
    have to confirm again.
    """
    return hashlib.sha256(address.encode()).hexdigest()[:8]
