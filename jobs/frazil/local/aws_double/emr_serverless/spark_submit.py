"""Translate a StartJobRun request into a local spark-submit command. Pure functions.

One process replaces the driver and all workers. Worker sizes are dropped, the environment variables of driver and
executors become the environment of the process, and archives become folders of its work directory.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from frazil.local.aws_double.emr_serverless.refusals import ValidationException

MASTER = "local[2]"
DRIVER_MEMORY = "1g"
DRIVER_ENVIRONMENT = "spark.emr-serverless.driverEnv."
EXECUTOR_ENVIRONMENT = "spark.executorEnv."
ARCHIVES = "spark.archives"
LISTS_OF_FILES = ("spark.files", "spark.jars", "spark.submit.pyFiles")
AS_PROPERTY = {
    "--archives": ARCHIVES,
    "--files": "spark.files",
    "--jars": "spark.jars",
    "--py-files": "spark.submit.pyFiles",
    "--name": "spark.app.name",
}
SIZES = ("spark.driver.cores", "spark.driver.memory", "spark.executor.", "spark.dynamicAllocation.")
ELSEWHERE = ("spark.master", "spark.submit.deployMode", "spark.emr-serverless.", "spark.hadoop.fs.s3", ARCHIVES)
"""Properties that do not apply locally: where the job runs, and EMR's own S3 file system."""
WITHOUT_VALUE = ("--verbose", "-v", "--supervise")
OF_THIS_MACHINE = {
    "spark.driver.memory": DRIVER_MEMORY,
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}


@dataclass(frozen=True, slots=True)
class Archive:
    """An archive. `name` is the folder in the work directory into which it is unpacked."""

    address: str
    name: str


@dataclass(frozen=True, slots=True)
class Submission:
    """What a job run submits. `properties` are Spark's; `options` are the other options of spark-submit."""

    entry_point: str
    arguments: tuple[str, ...]
    properties: Mapping[str, str]
    options: tuple[str, ...]

    @property
    def archives(self) -> tuple[Archive, ...]:
        return tuple(_archive(one) for one in _addresses(self.properties.get(ARCHIVES, "")))

    @property
    def files(self) -> tuple[str, ...]:
        """Return the entry point, followed by every file that a property lists."""
        listed = [one for name in LISTS_OF_FILES for one in _addresses(self.properties.get(name, ""))]
        return (self.entry_point, *listed)

    @property
    def environment(self) -> dict[str, str]:
        """Return the environment variables of the process; the driver's value wins over the executors'."""
        return _with_prefix(self.properties, EXECUTOR_ENVIRONMENT) | _with_prefix(self.properties, DRIVER_ENVIRONMENT)

    def with_local_files(self, local: Mapping[str, Path]) -> Submission:
        """Return a copy with local files instead of S3 addresses."""
        listed = {
            name: ",".join(str(local.get(one, one)) for one in _addresses(self.properties[name]))
            for name in LISTS_OF_FILES
            if name in self.properties
        }
        entry_point = str(local.get(self.entry_point, self.entry_point))
        return replace(self, entry_point=entry_point, properties={**self.properties, **listed})

    def command(self, spark_submit: Path) -> list[str]:
        kept = {name: value for name, value in self.properties.items() if not name.startswith((*SIZES, *ELSEWHERE))}
        return [
            str(spark_submit),
            *("--master", MASTER),
            *_as_options(kept | OF_THIS_MACHINE),
            *self.options,
            self.entry_point,
            *self.arguments,
        ]


def read(request: Mapping[str, Any], application: Mapping[str, Any]) -> Submission:
    """Read a StartJobRun request and its application's settings. The request's settings win."""
    driver = (request.get("jobDriver") or {}).get("sparkSubmit")
    if not driver or not driver.get("entryPoint"):
        raise ValidationException("The double runs sparkSubmit jobs only: jobDriver.sparkSubmit.entryPoint is missing.")
    properties, options = _parsed(shlex.split(driver.get("sparkSubmitParameters") or ""))
    overrides = (request.get("configurationOverrides") or {}).get("applicationConfiguration")
    defaults = _spark_defaults(application.get("runtimeConfiguration")) | _spark_defaults(overrides)
    arguments = tuple(map(str, driver.get("entryPointArguments") or ()))
    return Submission(driver["entryPoint"], arguments, defaults | properties, options)


def _parsed(words: Sequence[str]) -> tuple[dict[str, str], tuple[str, ...]]:
    properties: dict[str, str] = {}
    options: list[str] = []
    for option, value in _pairs(words):
        if option in ("--conf", "-c"):
            name, _, given = value.partition("=")
            properties[name.strip()] = given
        elif option in AS_PROPERTY:
            properties[AS_PROPERTY[option]] = value
        elif not option.startswith(("--master", "--deploy-mode", "--driver-", "--executor-", "--num-", "--total-")):
            options += [option, value] if value else [option]
    return properties, tuple(options)


def _pairs(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield options with their values, given as `--option value` or `--option=value`."""
    left = iter(words)
    for word in left:
        option, equals, value = word.partition("=") if word.startswith("--") else (word, "", "")
        yield option, value if equals or option in WITHOUT_VALUE else next(left, "")


def _spark_defaults(configurations: Iterable[Mapping[str, Any]] | None) -> dict[str, str]:
    given = [one for one in configurations or () if one.get("classification") == "spark-defaults"]
    return {name: str(value) for one in given for name, value in (one.get("properties") or {}).items()}


def _archive(listed: str) -> Archive:
    address, _, name = listed.partition("#")
    return Archive(address, name or Path(address).name)


def _addresses(listed: str) -> list[str]:
    return [one.strip() for one in listed.split(",") if one.strip()]


def _with_prefix(properties: Mapping[str, str], prefix: str) -> dict[str, str]:
    return {name.removeprefix(prefix): value for name, value in properties.items() if name.startswith(prefix)}


def _as_options(properties: Mapping[str, str]) -> Iterator[str]:
    for name, value in properties.items():
        yield from ("--conf", f"{name}={value}")
