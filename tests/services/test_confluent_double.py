"""The double of Confluent Cloud on a socket, as `create --profile=local` uses it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from devcloud.confluent_double import ConfluentDouble, Server
from frazil.model.secret import Secret
from shared.confluent_api import (
    ConfluentCloud,
    KeyPair,
    NewKey,
    address_from_environment,
    key_from_environment,
)
from shared.doubles import CONFLUENT_URL
from tests.fakes.served import served

WHO = KeyPair("CLOUDKEY", Secret("cloud-secret"))


@pytest.fixture
def server() -> Iterator[Server]:
    with served(ConfluentDouble(WHO, refused_for=1)) as server:
        yield server


def test_keys_are_made_work_and_go_over_a_socket(server: Server) -> None:
    cloud = ConfluentCloud(WHO, address=server.address)

    made = cloud.make_key(NewKey(name="frazil-local-registry", description="", owner="sa-1", resource="lsrc-1"))
    worked = [cloud.is_known(made, "https://psrc-1.aws.confluent.cloud/subjects") for _ in range(2)]
    listed = cloud.keys_of("sa-1")
    cloud.delete_key(made.key)

    assert worked == [False, True]
    assert [key.id for key in listed] == [made.key]
    assert cloud.keys_of("sa-1") == []


def test_it_runs_as_a_process_of_its_own_which_the_environment_leads_to() -> None:
    keys = {"CONFLUENT_CLOUD_API_KEY": "CLOUDKEY", "CONFLUENT_CLOUD_API_SECRET": "cloud-secret"}
    command = [sys.executable, "-m", "devcloud.confluent_double", "0"]
    with subprocess.Popen(command, env={**os.environ, **keys}, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            environment = {**keys, CONFLUENT_URL: process.stdout.readline().strip()}
            cloud = ConfluentCloud(key_from_environment(environment), address=address_from_environment(environment))

            assert cloud.keys_of("sa-1") == []
        finally:
            process.terminate()
