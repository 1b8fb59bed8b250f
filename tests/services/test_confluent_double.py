"""The double of Confluent Cloud on a socket, as `create --profile=local` uses it."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from infra.confluent_api import ConfluentCloud, KeyPair, NewKey
from infra.local.confluent_double import ConfluentDouble, Server
from jobs.model.spec import Secret

WHO = KeyPair("CLOUDKEY", Secret("cloud-secret"))


@pytest.fixture
def server() -> Iterator[Server]:
    with Server(ConfluentDouble(WHO, refused_for=1), 0) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join(10)


def test_keys_are_made_work_and_go_over_a_socket(server: Server) -> None:
    cloud = ConfluentCloud(WHO, address=server.address)

    made = cloud.make_key(NewKey(name="frazil-local-registry", description="", owner="sa-1", resource="lsrc-1"))
    worked = [cloud.is_opened_by("https://psrc-1.aws.confluent.cloud/subjects", made) for _ in range(2)]
    listed = cloud.keys_of("sa-1")
    cloud.delete_key(made.key)

    assert worked == [False, True]
    assert [key.id for key in listed] == [made.key]
    assert cloud.keys_of("sa-1") == []
