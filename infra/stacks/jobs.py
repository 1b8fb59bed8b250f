"""The EMR Serverless application that writes the tables, its role, its job runs and their alarms."""

from __future__ import annotations

from collections.abc import Sequence

from frazil.model.cloudwatch_names import namespace_of
from frazil.model.spec import TableSpec
from frazil.specs.prices import read_prices
from infra.artefacts.artefact import Artefacts
from infra.cdk import App, Output, Stack
from infra.components.alarms import Alarms
from infra.components.backends import keep_state
from infra.components.config_object import ConfigObject
from infra.components.dashboard import Watched, body
from infra.components.frazil_config import frazil_yaml, snowflake_section
from infra.components.job_alarms import FAILING_TABLES, TABLE_FAILED, Names, job_alarms
from infra.components.job_request import JobRuns, Request, for_scheduler
from infra.components.job_role import Touched, job_role
from infra.components.job_schedules import JobSchedules, Schedule, universal_target, word_of
from infra.components.kafka import Kafka
from infra.components.key_alarms import key_alarms, telling_ages
from infra.components.log_group import LogGroup
from infra.components.region import enter_region
from infra.components.snowflake_external import read_by_its_delta_log
from infra.components.streaming_keeper import StreamingKeeper, run_scopes
from infra.permissions.of_roles import KEEPS_STREAMING, STARTS_RUNS, PolicyTarget, Scope, statements
from infra.reports.costs import job_cost
from infra.resources import aws
from infra.settings.model import EnvironmentSettings
from infra.stacks.lake import LakeStack
from infra.stacks.network import NetworkStack
from infra.stacks.secrets import SecretsStack
from infra.wanted.topics import output_topics
from infra.wanted.transforms import JobSpecs
from infra.wanted.triggers import driver_wait, triggers_of
from shared import naming

KEPT_MINUTES = 15
"""How often a function checks that the streaming run exists, and starts it if not."""

IDLE_MINUTES = 15
"""After this long without a job run the application stops; it starts by itself with the next one."""


class JobsStack(Stack):
    """The stack of the jobs. It holds no data: after a destroy and an apply, the jobs resume from the tables."""

    def __init__(
        self,
        app: App,
        settings: EnvironmentSettings,
        *,
        network: NetworkStack,
        kafka: Kafka,
        lake: LakeStack,
        secrets: SecretsStack,
        artefacts: Artefacts,
        specs: JobSpecs,
    ) -> None:
        super().__init__(app, "jobs")
        keep_state(self, settings)
        self._settings = settings
        self._region = enter_region(self, settings)
        self._triggers = triggers_of(settings.jobs, specs.tables, source_file=settings.source_file)
        self._config = self._make_config(kafka, lake)
        self._logs = self._make_logs(lake)
        self._application = self._make_application(network)
        touched = self._touched(kafka, lake, secrets, specs)
        self._role = job_role(self, settings.environment, touched, self._application.arn)
        lake.grant_tables(self, "job", role_arn=self._role.arn, use="write")
        self._runs = self._describe_runs(lake, artefacts)
        self._wait = driver_wait(self._triggers, specs.tables)
        self._keeper = self._make_keeper(lake)
        self._schedules = self._make_schedules(secrets)
        self._alarms = self._make_alarms(lake, secrets)
        self._dashboard = self._make_dashboard()
        self._outputs()

    @property
    def alarms_topic_arn(self) -> str:
        return self._alarms.topic_arn

    def _name(self, word: str) -> str:
        return naming.resource_name(self._settings.environment, word)

    @property
    def _metrics_namespace(self) -> str | None:
        return namespace_of(self._settings.environment) if self._settings.jobs.table_metrics else None

    def _make_config(self, kafka: Kafka, lake: LakeStack) -> ConfigObject:
        account = self._settings.snowflake
        text = frazil_yaml(
            kafka,
            warehouse=lake.warehouse,
            database=lake.database_name,
            region=self._region.name,
            catalog=self._settings.lake.catalog,
            snowflake=None if account is None else snowflake_section(self._settings.environment, account),
            policies=self._settings.policies,
        )
        return ConfigObject(self, "config", text=text, bucket=lake.bucket_name, key_arn=lake.key_arn)

    def _make_logs(self, lake: LakeStack) -> LogGroup:
        name = naming.log_group_name(self._settings.environment, "jobs")
        days = self._settings.log_retention_days
        return LogGroup(self, "logs", name=name, key_arn=lake.key_arn, retention_days=days)

    def _count_failing_tables(self) -> str:
        """Count failing tables in the log, because they do not end the run; return the metric's namespace."""
        namespace = namespace_of(self._settings.environment)
        aws.CloudwatchLogMetricFilter(
            self,
            "failing-tables",
            name=self._name("failing-tables"),
            log_group_name=self._logs.name,
            pattern=TABLE_FAILED,
            metric_transformation=aws.CloudwatchLogMetricFilter_MetricTransformation(
                namespace=namespace, name=FAILING_TABLES, value="1"
            ),
        )
        return namespace

    def _make_application(self, network: NetworkStack) -> aws.EmrserverlessApplication:
        jobs = self._settings.jobs
        most = jobs.maximum_capacity
        inside = aws.EmrserverlessApplication_NetworkConfiguration(
            subnet_ids=network.subnet_ids, security_group_ids=network.security_group_ids
        )
        return aws.EmrserverlessApplication(
            self,
            "application",
            name=self._name("jobs"),
            type="spark",
            release_label=jobs.release_label,
            architecture=jobs.architecture.upper(),
            maximum_capacity=aws.EmrserverlessApplication_MaximumCapacity(
                cpu=f"{most.cpu} vCPU", memory=f"{most.memory_gb} GB", disk=f"{most.disk_gb} GB"
            ),
            auto_start_configuration=aws.EmrserverlessApplication_AutoStartConfiguration(enabled=True),
            auto_stop_configuration=aws.EmrserverlessApplication_AutoStopConfiguration(
                enabled=True, idle_timeout_minutes=IDLE_MINUTES
            ),
            network_configuration=inside if network.subnet_ids else None,
        )

    def _touched(self, kafka: Kafka, lake: LakeStack, secrets: SecretsStack, specs: JobSpecs) -> Touched:
        of_policies = (key.secret for key in self._settings.policies.values())
        of_services = (kafka.credentials, kafka.registry_credentials, self._key_of_the_loader(specs.tables))
        named = dict.fromkeys((*of_services, *of_policies))
        topics = sorted({topic for table in specs.tables for topic in table.topics})
        return Touched(
            region=self._region,
            lake=lake,
            logs=self._logs,
            secrets=[secrets.named(name) for name in named if name is not None],
            msk_topics=topics if kafka.msk_iam else (),
            msk_outputs=output_topics(specs.tables, specs.transforms) if kafka.msk_iam else (),
            schemas=kafka.glue_registry,
        )

    def _key_of_the_loader(self, tables: Sequence[TableSpec]) -> str | None:
        """Return the name of the secret that Delta log refreshes in Snowflake use, or None if no table needs them."""
        if self._settings.snowflake is None or not any(read_by_its_delta_log(table) for table in tables):
            return None
        return naming.snowflake_secret_name(self._settings.environment, "loader")

    def _describe_runs(self, lake: LakeStack, artefacts: Artefacts) -> JobRuns:
        jobs = self._settings.jobs
        return JobRuns(
            environment=self._settings.environment,
            region=self._region.name,
            bucket=lake.bucket_name,
            artefacts=artefacts,
            config=self._config.address,
            python=jobs.python,
            driver=jobs.driver,
            executor=jobs.executor,
            executors=jobs.executors,
            role_arn=self._role.arn,
            log_group=self._logs.name,
            tags=naming.tags(self._settings.environment, self.node.id, self._settings.tags),
            metrics_namespace=self._metrics_namespace,
        )

    def _make_keeper(self, lake: LakeStack) -> StreamingKeeper:
        streamed = self._triggers.streamed
        return StreamingKeeper(
            self,
            "streaming",
            settings=self._settings,
            application=self._application,
            job_role=self._role,
            key_arn=lake.key_arn,
            wanted=self._runs.streaming(streamed) if streamed else None,
        )

    def _make_schedules(self, secrets: SecretsStack) -> JobSchedules:
        """Create a schedule that restarts a streaming run which EMR Serverless gave up, and those of scheduled runs."""
        kept = self._keeping() if self._triggers.streamed else ()
        if secrets.rotation is not None:
            kept = (*kept, telling_ages(secrets.rotation, list(secrets.rotated.values())))
        scopes = {
            **run_scopes(self._application.arn, self._role.arn),
            PolicyTarget.FUNCTION: Scope(tuple(each.target for each in kept)),
        }
        started = tuple(self._starting(*each) for each in self._triggers.scheduled.items())
        if self._settings.jobs.verify is not None:
            started = (*started, self._verifying(self._settings.jobs.verify))
        if self._settings.jobs.maintain is not None:
            started = (*started, self._maintaining(self._settings.jobs.maintain))
        calls = (KEEPS_STREAMING if kept else frozenset()) | (STARTS_RUNS if started else frozenset())
        schedules = JobSchedules(self, "schedules", environment=self._settings.environment, region=self._region)
        schedules.keep((*kept, *started), may=statements(calls, scopes), after=[self._keeper.kept])
        return schedules

    def _keeping(self) -> tuple[Schedule, ...]:
        return (
            Schedule(
                word="keep-streaming",
                description="Brings the streaming job run back where it was given up",
                expression=f"rate({KEPT_MINUTES} minutes)",
                target=self._keeper.arn,
                asked=self._keeper.asked,
            ),
        )

    def _starting(self, expression: str, tables: Sequence[str]) -> Schedule:
        description = f"Brings up to date: {', '.join(tables)}"[:512]
        return self._running(word_of(expression), description, expression, self._runs.scheduled(tables))

    def _verifying(self, expression: str) -> Schedule:
        description = "Proves that no record of the tables is missing or duplicated"
        return self._running("verify", description, expression, self._runs.verifying())

    def _maintaining(self, expression: str) -> Schedule:
        description = "Compacts the tables and expires their snapshots"
        return self._running("maintain", description, expression, self._runs.maintaining(self._wait))

    def _running(self, word: str, description: str, expression: str, request: Request) -> Schedule:
        """Return the schedule of a job run."""
        return Schedule(
            word=word,
            description=description,
            expression=expression,
            target=universal_target(self._region),
            asked=for_scheduler(request, self._application.id),
            time_zone=self._settings.jobs.time_zone,
        )

    def _make_alarms(self, lake: LakeStack, secrets: SecretsStack) -> Alarms:
        alarms = Alarms(
            self,
            "alarms",
            environment=self._settings.environment,
            region=self._region,
            key_arn=lake.key_arn,
            mail=self._settings.jobs.alarm_email,
        )
        names = Names(
            application_id=self._application.id,
            application_name=self._application.name,
            streaming=self._name("streaming") if self._triggers.streamed else None,
            keeper=self._keeper.name,
            schedules=self._schedules.group.name,
            log_group=self._logs.name,
            namespace=self._count_failing_tables(),
            has_table_metrics=self._settings.jobs.table_metrics,
            verify=self._name("verify") if self._settings.jobs.verify is not None else None,
            maintain=self._name("maintain") if self._settings.jobs.maintain is not None else None,
        )
        of_keys = () if secrets.rotation is None else key_alarms(secrets.rotation, self._settings)
        for spec in (*job_alarms(names), *of_keys):
            alarms.add(spec)
        return alarms

    def _make_dashboard(self) -> aws.CloudwatchDashboard:
        watched = Watched(
            region=self._region.name,
            application_id=self._application.id,
            application_name=self._application.name,
            log_group=self._logs.name,
            namespace=self._metrics_namespace,
            function_name=self._keeper.name,
            schedule_group=self._schedules.group.name,
            alarm_arns=self._alarms.arns,
        )
        name = self._name("jobs")
        return aws.CloudwatchDashboard(self, "dashboard", dashboard_name=name, dashboard_body=body(watched))

    def _outputs(self) -> None:
        region = self._region.name
        cost = job_cost(self._settings.jobs, read_prices())
        Output(self, "application_id", value=self._application.id)
        Output(self, "job_role_arn", value=self._role.arn)
        Output(self, "log_group_name", value=self._logs.name)
        Output(self, "alarms_topic_arn", value=self._alarms.topic_arn)
        Output(self, "config_address", value=self._config.address)
        Output(self, "frazil_config", value=self._config.text, description="The job's frazil.yaml")
        Output(self, "cost_per_hour", value=f"{cost.hourly:.3f}", description="USD for each job run, while it runs")
        Output(
            self, "console_url", value=f"https://{region}.console.aws.amazon.com/emr/home?region={region}#/serverless"
        )
        boards = f"https://{region}.console.aws.amazon.com/cloudwatch/home?region={region}#dashboards/dashboard"
        Output(self, "dashboard_url", value=f"{boards}/{self._dashboard.dashboard_name}")
