"""boto3 clients of the double, for calls that AWS makes with a role's credentials. These calls are recorded too."""

from __future__ import annotations

import threading
from typing import Any

import boto3  # type: ignore[import-untyped]
from botocore.config import Config  # type: ignore[import-untyped]

from frazil.local.aws_double.place import DoubleFolder
from frazil.local.aws_double.principals import Session

_CONFIG = Config(retries={"total_max_attempts": 2}, s3={"addressing_style": "path"})
_making = threading.Lock()
_models = boto3.session.Session()  # caches the service models, which are slow to read


def client(
    place: DoubleFolder, service: str, *, session: Session, region: str
) -> Any:  # boto3 creates its classes at run time
    with _making:
        return _models.client(
            service,
            endpoint_url=place.endpoint_url,
            region_name=region,
            config=_CONFIG,
            **session.as_client_options(),
        )


def environment(place: DoubleFolder, *, session: Session, region: str) -> dict[str, str]:
    """Return the environment variables with which a process calls the double as the session's role."""
    return {
        **session.as_environment(),
        "AWS_ENDPOINT_URL": place.endpoint_url,
        "AWS_REGION": region,
        "AWS_DEFAULT_REGION": region,
        "AWS_EC2_METADATA_DISABLED": "true",
    }
