"""Parse an environment's YAML file into EnvironmentSettings, or raise one error that lists every problem."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import cast

from frazil.model.errors import SettingError
from frazil.model.prices import Architecture
from frazil.model.secret import Secret
from frazil.model.settings import GlueSource
from frazil.specs.document import Mark
from frazil.specs.keys import Key, Values
from frazil.specs.load import read_document
from frazil.specs.placeholders import PlaceholderSources
from frazil.specs.problems import Problem, Problems, suggest
from frazil.specs.settings_keys import REGISTRY_NAME
from frazil.specs.shapes import At, Rejected
from infra.settings import export_keys, keys, policy_keys, schedule_keys, snowflake_keys
from infra.settings.confluent_problems import confluent_problems
from infra.settings.flink_keys import FLINK
from infra.settings.model import (
    Availability,
    BrokerLogin,
    CatalogIntegration,
    ConfluentKafka,
    Egress,
    EnvironmentSettings,
    ExistingVpc,
    ExternalKafka,
    ExternalRegistry,
    GovernancePackage,
    HcpState,
    Jobs,
    Lake,
    LocalState,
    MadeVpc,
    Mechanism,
    NatGateways,
    NatKind,
    Network,
    Protocol,
    ReleaseLabel,
    Rotation,
    S3State,
    Snowflake,
    Streamed,
    Worker,
)
from infra.settings.tag_problems import tag_problems
from shared.naming import OWN_FOLDERS

FOLDER = Path(__file__).parents[1] / "environments"
NAME = re.compile(r"[a-z][a-z0-9]{1,19}")
"""Without a hyphen, so that the prefix `frazil-dev-` identifies the resources of `dev` and of no other environment."""

MEMORY_OF_CPU = {1: (2, 8, 1), 2: (4, 16, 1), 4: (8, 30, 1), 8: (16, 60, 4), 16: (32, 120, 8)}

IN_PLAINTEXT = BrokerLogin("plaintext", None)
"""How clients connect to the local broker, which plays a cluster in Confluent Cloud."""


class _NoneRead:
    """A secret store that returns empty values: settings that hold a secret are refused anyway."""

    def read(self, name: str) -> str | None:
        return ""


def environments(folder: Path = FOLDER) -> tuple[str, ...]:
    """The names of all environments."""
    return tuple(sorted(file.stem for file in folder.glob("*.yaml")))


def refuse_unknown(name: str, *, folder: Path = FOLDER) -> None:
    """Raise SettingError if there is no environment of this name."""
    known = environments(folder)
    if name not in known:
        hint = f"{suggest(name, known)}; each environment is a file in {folder}, such as dev.yaml"
        raise SettingError(f"unknown environment {name}", hint=hint)


def load_environment(name: str, env: Mapping[str, str], *, folder: Path = FOLDER) -> EnvironmentSettings:
    """Return the settings of an environment; `env` provides the values of `${env:NAME}`.

    Raises SettingError, which lists all problems of the file, if the settings are invalid.
    """
    refuse_unknown(name, folder=folder)
    path = folder / f"{name}.yaml"
    at = At(str(path), path.parent, PlaceholderSources(env, _NoneRead()), Problems())
    root = read_document(path, at, missing=f"create {path}")
    at.problems.raise_if_any()
    try:
        values = keys.ENVIRONMENT.read(root, at)
        _check(name, values, at)
    except Rejected:
        pass
    at.problems.raise_if_any()
    return _environment(name, str(path), values)


def _check(name: str, values: Values, at: At) -> None:
    if not NAME.fullmatch(name):
        hint = "rename the file: use 2 to 20 lower-case letters and digits, starting with a letter"
        at.reject(Mark(0, 0), f"{name} is not a valid environment name", hint=hint)
    for problem in (
        *tag_problems(values),
        *_network_problems(values),
        *_privatelink_problems(values),
        *_catalog_problems(values[keys.LAKE]),
        *_kafka_problems(values),
        *_job_problems(values),
        *_snowflake_problems(values),
    ):
        at.problems.add(problem)


def _network_problems(values: Values) -> Iterator[Problem]:
    network = values[keys.NETWORK]
    vpc = network[keys.VPC]
    for key in (keys.EGRESS, keys.PRIVATELINK):
        if vpc is None and network.is_given(key):
            hint = "add vpc: {made: {}}, or vpc: {existing: …}, or remove the key"
            yield Problem(network.place_of(key), "has no effect without a vpc", hint)
    if vpc is None or not vpc.is_given(keys.MADE):
        return
    made = vpc[keys.MADE]
    bits = int(made[keys.VPC_CIDR].rpartition("/")[2])
    if not 16 <= bits <= 24:
        yield Problem(
            made.place_of(keys.VPC_CIDR), f"expected a /16 to a /24, found a /{bits}", "for example 10.42.0.0/16"
        )
    if made[keys.ZONES] > 6:
        yield Problem(made.place_of(keys.ZONES), "no region has more than 6 zones", "2 are usually enough")
    elif made[keys.NAT_GATEWAYS] == "one_per_zone" and made[keys.ZONES] > 2 ** (25 - bits):
        hint = f"use a /{25 - (made[keys.ZONES] - 1).bit_length()}, fewer zones, or nat_gateways: one"
        what = f"a /{bits} has no room for {made[keys.ZONES]} NAT gateways beside the workers"
        yield Problem(made.place_of(keys.VPC_CIDR), what, hint)


def _privatelink_problems(values: Values) -> Iterator[Problem]:
    network = values[keys.NETWORK]
    if network.is_given(keys.PRIVATELINK) and values[keys.KAFKA].is_given(keys.CONFLUENT):
        hint = "remove it, or describe an Enterprise or Dedicated cluster as kafka: {external: …}"
        yield Problem(
            network.place_of(keys.PRIVATELINK),
            "a Standard cluster of Confluent Cloud does not support PrivateLink",
            hint,
        )


def _catalog_problems(lake: Values) -> Iterator[Problem]:
    for name, value in lake[keys.CATALOG].handed_on.items():
        if isinstance(value, Secret):
            hint = "remove it: the job uses its IAM role; your own credentials come from your shell's environment"
            yield Problem(
                lake.place_of(keys.CATALOG), f"{name} is a secret and would be stored in Terraform's state", hint
            )


def _kafka_problems(values: Values) -> Iterator[Problem]:
    kafka = values[keys.KAFKA]
    if not kafka.is_given(keys.EXTERNAL):
        yield from confluent_problems(kafka[keys.CONFLUENT], values[keys.REGION], values[keys.LAKE])
        return
    external = kafka[keys.EXTERNAL]
    if external[keys.CLUSTER_NAME] in OWN_FOLDERS:
        what = f"the folder {external[keys.CLUSTER_NAME]} of the bucket is reserved for Frazil"
        yield Problem(external.place_of(keys.CLUSTER_NAME), what, "choose another name")
    registry = external[keys.REGISTRY]
    if registry.is_given(keys.GLUE) and registry.is_given(keys.REGISTRY_CREDENTIALS):
        what = "no effect, because the job reads AWS Glue with its role"
        yield Problem(registry.place_of(keys.REGISTRY_CREDENTIALS), what, "remove the key")
    protocol = external[keys.PROTOCOL]
    password = {key.name for key in (keys.MECHANISM, keys.CREDENTIALS) if external.is_given(key)}
    if external[keys.MSK_IAM] and (password or protocol != "sasl_ssl"):
        hint = "keep aws_msk_iam: true alone, with security.protocol: sasl_ssl, or remove it"
        yield Problem(external.place_of(keys.MSK_IAM), "conflicts with the other keys of kafka.external", hint)
    elif protocol.startswith("sasl_") and not external[keys.MSK_IAM] and len(password) < 2:
        hint = "add sasl.mechanism and credentials, or aws_msk_iam: true, or security.protocol: ssl or plaintext"
        yield Problem(external.place_of(keys.PROTOCOL), f"{protocol} needs sasl.mechanism and credentials", hint)
    elif password and not protocol.startswith("sasl_"):
        what = f"no effect of {' and '.join(sorted(password))}, because security.protocol is {protocol}"
        yield Problem(external.place_of(keys.PROTOCOL), what, "set security.protocol: sasl_ssl, or remove them")


def _job_problems(values: Values) -> Iterator[Problem]:
    jobs = values[keys.JOBS]
    for key in (keys.DRIVER, keys.EXECUTOR):
        yield from _worker_problems(jobs[key], jobs, key)
    if jobs.is_given(keys.RATE) and jobs[keys.MODE] != "scheduled":
        yield Problem(jobs.place_of(keys.RATE), "has no effect, because mode is streaming", "add mode: scheduled")
    if jobs[keys.RATE] == Streamed():
        yield Problem(jobs.place_of(keys.RATE), "expected a schedule, found streaming", "write rate(1 hour)")
    needed = _needed(jobs)
    most = _total(jobs[keys.MAXIMUM_CAPACITY])
    for size, unit in (("cpu", ""), ("memory_gb", "GB"), ("disk_gb", "GB")):
        if getattr(needed, size) > getattr(most, size):
            name = size.removesuffix("_gb")
            what = f"one job run needs {name} {getattr(needed, size)}{unit}, more than {getattr(most, size)}{unit}"
            hint = "raise maximum_capacity, or use fewer or smaller workers"
            yield Problem(jobs.place_of(keys.MAXIMUM_CAPACITY), what, hint)


def _worker_problems(values: Values, jobs: Values, key: Key[Values]) -> Iterator[Problem]:
    worker = _worker(values)
    least, most, step = MEMORY_OF_CPU[worker.cpu]
    if worker.memory_gb not in range(least, most + 1, step):
        steps = f" in steps of {step}GB" if step > 1 else ""
        hint = f"with cpu: {worker.cpu}, use {least}GB to {most}GB{steps}"
        yield Problem(jobs.place_of(key), f"EMR Serverless does not support {worker.memory_gb}GB of memory", hint)
    if not 20 <= worker.disk_gb <= 200:
        yield Problem(
            jobs.place_of(key), f"EMR Serverless does not support {worker.disk_gb}GB of disk", "use 20GB to 200GB"
        )


def _snowflake_problems(values: Values) -> Iterator[Problem]:
    if values.is_given(snowflake_keys.SNOWFLAKE) and values[keys.REGION].startswith(("cn-", "us-gov-")):
        what = f"Snowflake is not supported in the region {values[keys.REGION]} in this release"
        yield Problem(values.place_of(snowflake_keys.SNOWFLAKE), what, "remove the section, or choose another region")


def _needed(jobs: Values) -> Worker:
    driver, executor, count = _worker(jobs[keys.DRIVER]), _worker(jobs[keys.EXECUTOR]), jobs[keys.EXECUTORS]
    return Worker(
        driver.cpu + count * executor.cpu,
        driver.memory_gb + count * executor.memory_gb,
        driver.disk_gb + count * executor.disk_gb,
    )


def _environment(name: str, source_file: str, values: Values) -> EnvironmentSettings:
    region = values[keys.REGION]
    rotation = values[keys.ROTATION]
    return EnvironmentSettings(
        environment=name,
        source_file=source_file,
        region=region,
        production=values[keys.PRODUCTION],
        backend=_backend(values[keys.BACKEND], region),
        tags=values[keys.TAGS],
        log_retention_days=values[keys.LOG_RETENTION],
        network=_network(values[keys.NETWORK]),
        lake=_lake(values[keys.LAKE]),
        kafka=_kafka(values[keys.KAFKA], region),
        jobs=_jobs(values[keys.JOBS]),
        rotation=Rotation(rotation[keys.ROTATION_DAYS], rotation[keys.KEYS_TO_RETAIN]),
        snowflake=_snowflake(values[snowflake_keys.SNOWFLAKE]) if values.is_given(snowflake_keys.SNOWFLAKE) else None,
        policies=values.get(policy_keys.POLICIES) or {},
        exports=values[export_keys.EXPORTS],
        permissions_boundary=values[keys.IAM].get(keys.PERMISSIONS_BOUNDARY),
    )


def _backend(values: Values | None, region: str) -> LocalState | S3State | HcpState:
    if values is None:
        return LocalState()
    if values.is_given(keys.S3):
        s3 = values[keys.S3]
        return S3State(s3[keys.STATE_BUCKET], s3.get(keys.STATE_REGION) or region)
    cloud = values[keys.CLOUD]
    return HcpState(cloud[keys.ORGANIZATION], cloud.get(keys.PROJECT), cloud[keys.HOSTNAME])


def _lake(values: Values) -> Lake:
    return Lake(
        bucket=values.get(keys.BUCKET),
        database=values.get(keys.DATABASE),
        version_retention_days=values[keys.VERSION_RETENTION],
        catalog={name: str(value) for name, value in values[keys.CATALOG].handed_on.items()},
        readers=values[keys.READERS],
        lake_formation=values[keys.LAKE_FORMATION],
        catalog_key=values.get(keys.CATALOG_KEY),
    )


def _network(values: Values) -> Network:
    egress = values[keys.EGRESS]
    return Network(
        vpc=_vpc(values[keys.VPC]),
        egress=Egress(egress[keys.EGRESS_PORTS], egress[keys.EGRESS_CIDRS]),
        privatelink=values.get(keys.PRIVATELINK),
    )


def _vpc(values: Values | None) -> ExistingVpc | MadeVpc | None:
    if values is None:
        return None
    if values.is_given(keys.EXISTING):
        existing = values[keys.EXISTING]
        return ExistingVpc(existing[keys.VPC_ID], existing[keys.SUBNETS], existing[keys.ROUTE_TABLES])
    made = values[keys.MADE]
    gateways, nat = cast("NatGateways", made[keys.NAT_GATEWAYS]), cast("NatKind", made[keys.NAT])
    return MadeVpc(made[keys.VPC_CIDR], made[keys.ZONES], gateways, nat)


def _kafka(values: Values, region: str) -> ConfluentKafka | ExternalKafka:
    return (
        _external(values[keys.EXTERNAL], region)
        if values.is_given(keys.EXTERNAL)
        else _confluent(values[keys.CONFLUENT], region)
    )


def _confluent(values: Values, region: str) -> ConfluentKafka:
    return ConfluentKafka(
        region=values.get(keys.CONFLUENT_REGION) or region,
        availability=cast("Availability", values[keys.AVAILABILITY]),
        governance_package=cast("GovernancePackage", values[keys.GOVERNANCE_PACKAGE]),
        datagen=values[keys.DATAGEN],
        tableflow=values[keys.TABLEFLOW],
        topics=values[keys.TOPICS],
        subjects=values[keys.SUBJECTS],
        login=IN_PLAINTEXT if values[keys.STAND_IN] else BrokerLogin(),
        flink=values.get(FLINK),
    )


def _external(values: Values, region: str) -> ExternalKafka:
    return ExternalKafka(
        name=values[keys.CLUSTER_NAME],
        bootstrap_servers=values[keys.BOOTSTRAP],
        protocol=cast("Protocol", values[keys.PROTOCOL]),
        mechanism=cast("Mechanism | None", values.get(keys.MECHANISM)),
        msk_iam=values[keys.MSK_IAM],
        credentials=values.get(keys.CREDENTIALS),
        registry=_registry(values[keys.REGISTRY], region),
        topics=values[keys.OWN_TOPICS],
    )


def _registry(values: Values, region: str) -> ExternalRegistry | GlueSource:
    if not values.is_given(keys.GLUE):
        return ExternalRegistry(values[keys.REGISTRY_URL], values.get(keys.REGISTRY_CREDENTIALS))
    glue = values[keys.GLUE]
    return GlueSource(glue[REGISTRY_NAME], glue.get(keys.GLUE_REGION) or region)


def _jobs(values: Values) -> Jobs:
    return Jobs(
        release_label=cast("ReleaseLabel", values[keys.RELEASE_LABEL]),
        architecture=cast("Architecture", values[keys.ARCHITECTURE]),
        python=values[keys.PYTHON],
        driver=_worker(values[keys.DRIVER]),
        executor=_worker(values[keys.EXECUTOR]),
        executors=values[keys.EXECUTORS],
        maximum_capacity=_total(values[keys.MAXIMUM_CAPACITY]),
        tables=values[keys.TABLES],
        usual=values[keys.RATE] if values[keys.MODE] == "scheduled" else Streamed(),
        alarm_email=values.get(keys.ALARM_EMAIL),
        quota_cpu=values[keys.QUOTA_CPU],
        table_metrics=values[keys.TABLE_METRICS],
        verify=values.get(schedule_keys.VERIFY),
        maintain=values.get(schedule_keys.MAINTAIN),
        time_zone=values.get(schedule_keys.TIME_ZONE),
    )


def _worker(values: Values) -> Worker:
    cpu = int(values[keys.CPU])
    return Worker(cpu, values.get(keys.MEMORY) or 4 * cpu, values[keys.DISK])


def _total(values: Values) -> Worker:
    return Worker(values[keys.TOTAL_CPU], values[keys.TOTAL_MEMORY], values[keys.TOTAL_DISK])


def _snowflake(values: Values) -> Snowflake:
    return Snowflake(
        organization=values[snowflake_keys.SNOWFLAKE_ORGANIZATION],
        account=values[snowflake_keys.SNOWFLAKE_ACCOUNT],
        user=values[snowflake_keys.SNOWFLAKE_USER],
        role=values[snowflake_keys.SNOWFLAKE_ROLE],
        warehouse=values[snowflake_keys.WAREHOUSE],
        database=values.get(snowflake_keys.SNOWFLAKE_DATABASE),
        schema=values[snowflake_keys.SNOWFLAKE_SCHEMA],
        catalog_integration=cast("CatalogIntegration", values[snowflake_keys.CATALOG_INTEGRATION]),
        refresh_seconds=values[snowflake_keys.REFRESH_EVERY],
        reader_roles=values[snowflake_keys.READER_ROLES],
        allowed_cidrs=values[snowflake_keys.ALLOWED_CIDRS],
        url=values.get(snowflake_keys.SNOWFLAKE_STAND_IN),
    )
