"""What everything is called and tagged. Pure functions: an environment and a word become a name, always the same."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

Account = Literal["manager", "producer", "consumer", "registry", "connector", "materializer", "tableflow", "flink"]

APPLICATION = "frazil"
PARTITIONS = (("cn-", "aws-cn"), ("us-gov-", "aws-us-gov"))
LONGEST = 64  # IAM roles, Lambda functions, schedules
OWN_TAGS = frozenset({"application", "environment", "stack"})
OWN_FOLDERS = frozenset({"artefacts", "athena_results", "config", "exports"})
"""Of the lake's bucket, beside those of Kafka clusters."""


def resource_name(environment: str, word: str) -> str:
    """Return the name of a resource that is unique in an account and region: `frazil-dev-materializer`."""
    name = f"{APPLICATION}-{environment}-{word}"
    if len(name) > LONGEST:
        raise ValueError(f"{name} has {len(name)} characters, more than the {LONGEST} that AWS allows")
    return name


def _path(environment: str, *words: str) -> str:
    """Return a name with slashes: `frazil/dev/snowflake/reader`."""
    return "/".join((APPLICATION, environment, *words))


def partition_of(region: str) -> str:
    """Return the first word of ARNs after `arn:` in a region: `aws`, `aws-cn` or `aws-us-gov`."""
    return next((name for prefix, name in PARTITIONS if region.startswith(prefix)), "aws")


def bucket_name(environment: str, *, account_id: str, region: str) -> str:
    """The lake's, unless a setting says otherwise; bucket names are shared by the whole world."""
    return f"{APPLICATION}-{environment}-{account_id}-{region}"


def database_name(cluster: str) -> str:
    """The Kafka cluster's, in the letters that every reader takes unquoted: `lkc-1y3y5` is lkc_1y3y5."""
    return cluster.replace("-", "_").lower()


def table_location(bucket: str, cluster: str) -> str:
    """The folder of a Kafka cluster's tables."""
    return f"s3://{bucket}/{cluster}"


def secret_name(environment: str, account: Account) -> str:
    """The secret that holds the API key of a service account."""
    return _path(environment, account)


def cloud_secret_name(environment: str) -> str:
    """The secret that holds the Cloud API key, which makes the keys of service accounts."""
    return _path(environment, "cloud")


def link_key_secret_name(environment: str) -> str:
    """The secret that holds the key that signs links to exported files."""
    return _path(environment, "link-key")


def snowflake_secret_name(environment: str, word: str) -> str:
    """The secret that holds the key pair of a user of Snowflake."""
    return _path(environment, "snowflake", word)


def snowflake_name(environment: str, *words: str) -> str:
    """Return the name of an object that is unique in a Snowflake account, in upper case: `FRAZIL_DEV_READER`."""
    return "_".join((APPLICATION, environment, *words)).replace("-", "_").upper()


def log_group_name(environment: str, word: str) -> str:
    """Return the log group of job runs. Log groups of Lambda functions are called /aws/lambda/<function>."""
    return f"/{_path(environment, word)}"


def workspace_name(environment: str, stack: str) -> str:
    """The workspace of a stack in HCP Terraform."""
    return resource_name(environment, stack)


def state_path(stack: str) -> str:
    """Return the path of a stack's state, relative to Terraform's folder: cdktf.out/stacks/<stack>/."""
    return f"../../../state/{stack}.tfstate"


def state_key(environment: str, stack: str) -> str:
    """Return the key of a stack's state in a bucket."""
    return _path(environment, f"{stack}.tfstate")


def tags(environment: str, stack: str, others: Mapping[str, str]) -> dict[str, str]:
    """Return the tags of all resources of a stack, for cost reports and searches."""
    return {**others, "application": APPLICATION, "environment": environment, "stack": stack}
