"""The requests of StartJobRun as values: program, workers and Spark settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from frazil.model.cloudwatch_names import NAMESPACE_VARIABLE, RUN_VARIABLE, STREAMING
from frazil.model.ingested import ATTEMPTS_OF_A_TASK
from infra.artefacts.artefact import Artefact, Artefacts
from infra.settings.model import Worker
from shared.naming import resource_name

Request = Mapping[str, Any]
"""The request in the API's spelling, without the application, which the sender adds."""

PYTHON_PATH = "./environment:./frazil"
"""Where both archives are unpacked, from the folder that driver and executors work in."""

FAILURES_PER_HOUR = 5
SCHEDULED_MINUTES = 240
"""A scheduled run that is cut off loses nothing: the table is the checkpoint, and the next run continues from it."""
MAINTAINED_FOR = "3h"
"""After this time no further rewrite begins, so that the run ends before it is cut off."""

SMALLEST_HEAP_MB = 1024
LEVEL_OF_LOGS = "WARN"
FREE_NAMES = ("tags", "logTypes")
"""Parts of a request whose keys are not the API's own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRuns:
    """What all job runs of an environment have in common. Texts may be Terraform references.

    `metrics_namespace` is where drivers write metrics of tables to, None for no metrics.
    """

    environment: str
    region: str
    bucket: str
    artefacts: Artefacts
    config: str
    python: str
    driver: Worker
    executor: Worker
    executors: int
    role_arn: str
    log_group: str
    tags: Mapping[str, str]
    metrics_namespace: str | None = None

    def streaming(self, tables: Sequence[str]) -> Request:
        """Return the request of the streaming run, which EMR Serverless restarts unless it fails repeatedly."""
        return {
            **self._request(STREAMING, ("materialize", *tables)),
            "mode": "STREAMING",
            "executionTimeoutMinutes": 0,
            "retryPolicy": {"maxFailedAttemptsPerHour": FAILURES_PER_HOUR},
        }

    def scheduled(self, tables: Sequence[str]) -> Request:
        """Return the request of a run that ends when its tables have caught up."""
        return {
            **self._request("scheduled", ("materialize", "--once", *tables)),
            "mode": "BATCH",
            "executionTimeoutMinutes": SCHEDULED_MINUTES,
        }

    def verifying(self) -> Request:
        """Return the request of a run that proves all tables, and fails if one is not proven. It needs no executor."""
        return {
            **self._request("verify", ("verify", "--explain")),
            "mode": "BATCH",
            "executionTimeoutMinutes": SCHEDULED_MINUTES,
        }

    def maintaining(self, wait: timedelta | None) -> Request:
        """Return the request of a run that maintains all tables. `wait`: for a running driver; None: two triggers."""
        waiting = () if wait is None else ("--wait", f"{wait // timedelta(seconds=1)}s")
        return {
            **self._request("maintain", ("maintain", "--for", MAINTAINED_FOR, *waiting)),
            "mode": "BATCH",
            "executionTimeoutMinutes": SCHEDULED_MINUTES,
        }

    def _request(self, word: str, command: Sequence[str]) -> dict[str, Any]:
        return {
            "name": resource_name(self.environment, word),
            "executionRoleArn": self.role_arn,
            "jobDriver": {
                "sparkSubmit": {
                    "entryPoint": self._address(self.artefacts.start),
                    "entryPointArguments": [*self._options(), *command],
                    "sparkSubmitParameters": as_parameters(self.spark_settings(word)),
                }
            },
            "configurationOverrides": {"monitoringConfiguration": monitoring(self.log_group, word)},
            "tags": dict(self.tags),
        }

    def _options(self) -> tuple[str, ...]:
        """Return the options of jobs/frazil/job_run.py."""
        tables, transforms = self.artefacts.tables, self.artefacts.transforms
        more = () if transforms is None else ("--transforms", self._address(transforms))
        return ("--config", self.config, "--tables", self._address(tables), *more)

    def spark_settings(self, run: str) -> dict[str, str]:
        """Return the Spark settings that depend on the machine; `frazil.adapters` sets those that Frazil relies on."""
        archives = (
            f"{self._address(self.artefacts.environment)}#environment,{self._address(self.artefacts.frazil)}#frazil"
        )
        return {
            "spark.archives": archives,
            **self._python_settings(run),
            **worker_settings("driver", self.driver),
            **worker_settings("executor", self.executor),
            "spark.executor.instances": str(self.executors),
            "spark.dynamicAllocation.enabled": "false",
            "spark.default.parallelism": str(self.executors * self.executor.cpu),
            "spark.task.maxFailures": str(ATTEMPTS_OF_A_TASK),
            "spark.log.level": LEVEL_OF_LOGS,
        }

    def _python_settings(self, run: str) -> dict[str, str]:
        namespace = self.metrics_namespace
        metrics = {} if namespace is None else {NAMESPACE_VARIABLE: namespace, RUN_VARIABLE: run}
        env = {"PYSPARK_PYTHON": self.python, "PYTHONPATH": PYTHON_PATH, "AWS_DEFAULT_REGION": self.region}
        of_driver = {**env, "PYSPARK_DRIVER_PYTHON": self.python, **metrics}
        return {
            **{f"spark.emr-serverless.driverEnv.{name}": value for name, value in of_driver.items()},
            **{f"spark.executorEnv.{name}": value for name, value in env.items()},
        }

    def _address(self, artefact: Artefact) -> str:
        return f"s3://{self.bucket}/{artefact.key}"


def worker_settings(role: str, worker: Worker) -> dict[str, str]:
    """Return the memory settings. Java gets a quarter, because Python processes fetch, decode and write the records."""
    memory_mb = worker.memory_gb * 1024
    heap_mb = max(memory_mb // 4, SMALLEST_HEAP_MB)
    return {
        f"spark.{role}.cores": str(worker.cpu),
        f"spark.{role}.memory": f"{heap_mb}m",
        f"spark.{role}.memoryOverhead": f"{memory_mb - heap_mb}m",
        f"spark.emr-serverless.{role}.disk": f"{worker.disk_gb}g",
    }


def as_parameters(settings: Mapping[str, str]) -> str:
    """Return the settings as spark-submit parameters, which the service splits at spaces: values cannot have any."""
    torn = [name for name, value in settings.items() if " " in value]
    if torn:
        raise ValueError(f"{torn[0]} has a space in its value, where EMR Serverless would tear it apart")
    return " ".join(f"--conf {name}={value}" for name, value in settings.items())


def monitoring(log_group: str, prefix: str) -> dict[str, Any]:
    """Return where logs go. The log group has its key already; naming it here would require it of each caller."""
    kinds = ["STDERR", "STDOUT"]
    return {
        "cloudWatchLoggingConfiguration": {
            "enabled": True,
            "logGroupName": log_group,
            "logStreamNamePrefix": prefix,
            "logTypes": {"SPARK_DRIVER": kinds, "SPARK_EXECUTOR": kinds},
        },
        "managedPersistenceMonitoringConfiguration": {"enabled": True},
    }


def for_scheduler(request: Request, application_id: str) -> dict[str, Any]:
    """Return the request for a universal target of EventBridge Scheduler, which spells APIs in PascalCase.

    The execution's id makes two deliveries of one execution one job run.
    """
    token = "<aws.scheduler.execution-id>"  # noqa: S105 - a word that the scheduler replaces, not a secret
    spelled: dict[str, Any] = _in_pascal_case(request)
    return {"ApplicationId": application_id, "ClientToken": token, **spelled}


def _in_pascal_case(part: Any) -> Any:
    if not isinstance(part, Mapping):
        return part
    return {
        name[0].upper() + name[1:]: dict(value) if name in FREE_NAMES else _in_pascal_case(value)
        for name, value in part.items()
    }
