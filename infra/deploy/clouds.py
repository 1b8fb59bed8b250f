"""The clouds to deploy to, by the profile on the command line and by the account that is recorded."""

from __future__ import annotations

from infra.deploy.aws_cloud import AwsCloud
from infra.deploy.cloud import Cloud
from infra.deploy.local.cloud import LocalCloud

REAL: Cloud = AwsCloud()
LOCAL: Cloud = LocalCloud()


def cloud_of(name: str) -> Cloud:
    """Return the cloud of a profile or of a recorded account. `local` is the one name of the local cloud."""
    return LOCAL if name == LOCAL.account else REAL
