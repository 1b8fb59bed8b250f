"""A double of AWS of this run's own; names of what tests make in it must be new."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pytest
from aws_provider import installed_executable, shared_provider
from cloud import REGION, Cloud

from frazil.local.supervisor import ANY_FREE_PORTS, down, up


@pytest.fixture(scope="session")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cloud]:
    directory = tmp_path_factory.mktemp("cloud")
    try:
        with pytest.MonkeyPatch.context() as environment:
            environment.setenv("AWS_PROFILE", "of-the-user")
            endpoint = up(("aws",), directory, preferred_ports=ANY_FREE_PORTS).aws_endpoint_url
        yield Cloud(endpoint, directory / "aws")
    finally:
        down(directory, wipe=True)


@pytest.fixture(scope="session")
def aws_provider(cloud: Cloud, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, str]]:
    """The variables with which Terraform uses one running AWS provider for all stacks in `cloud`."""
    folder = tmp_path_factory.mktemp("aws-provider")
    executable = installed_executable(folder)
    with shared_provider(executable, endpoint_url=cloud.endpoint_url, region=REGION, folder=folder) as found:
        yield found
