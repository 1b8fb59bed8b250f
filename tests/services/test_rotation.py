"""Keys rotate by Secrets Manager's own call: the packed function, in the double of AWS, with the real connector.

What goes wrong, that is; a rotation that goes well is part of every deployment (tests/local_cloud/test_deployed.py).
"""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import re
import threading
import time
import uuid
import zipfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.config import Config

from devcloud.confluent_double import Answer, ConfluentDouble
from devcloud.http_double import Server
from devcloud.snowflake_double import MODIFY, SnowflakeDouble
from frazil.local.aws_double.secrets_rotation import ATTEMPTS
from frazil.local.supervisor import LocalServices
from frazil.model.secret import Secret
from infra.artefacts.environment import Target
from infra.artefacts.lambda_zip import lambda_zip
from shared.confluent_api import KeyPair
from shared.rsa_key import RsaKey
from shared.snowflake_login import SnowflakeClient

ROOT = Path(__file__).parents[2]
REGION = "us-east-1"
ACCOUNT = "FRAZIL-LOCAL"
WHO = KeyPair("CLOUDKEY", Secret("cloud-secret-of-the-organization"))
MOST_BYTES = 60_000_000
PATIENCE_SECONDS = 90.0


@dataclass(frozen=True)
class Cloud:
    """AWS with the function in it, and what the function rotates keys of."""

    services: LocalServices
    function: str
    snowflake: SnowflakeDouble
    snowflake_address: str
    confluent: ConfluentDouble
    said: list[str]

    def client(self, service: str) -> Any:
        return client(self.services, service)

    @property
    def vault(self) -> Any:
        return self.client("secretsmanager")

    def secret(self, **tags: str) -> str:
        made = self.vault.create_secret(
            Name=f"frazil/test/{uuid.uuid4().hex[:8]}",
            Tags=[{"Key": f"frazil-{name}".replace("_", "-"), "Value": value} for name, value in tags.items()],
        )
        return str(made["ARN"])

    def invoke(self, step: str, secret: str) -> dict[str, Any]:
        event = json.dumps({"Step": step, "SecretId": secret})
        told = self.client("lambda").invoke(FunctionName=self.function, Payload=event)
        answer = told["Payload"].read().decode()
        self.said.append(answer)
        assert "FunctionError" not in told, answer
        given: dict[str, Any] = json.loads(answer)
        return given

    def rotate(self, secret: str) -> str:
        """Begin; the version that is to become the current one."""
        function = self.client("lambda").get_function(FunctionName=self.function)["Configuration"]["FunctionArn"]
        return str(self.vault.rotate_secret(SecretId=secret, RotationLambdaARN=function)["VersionId"])

    def rotated(self, secret: str) -> str:
        """All of a rotation."""
        version = self.rotate(secret)
        eventually(lambda: self.stages(secret).get(version) == ["AWSCURRENT"], self.log)
        return version

    def stages(self, secret: str) -> dict[str, list[str]]:
        told = self.vault.describe_secret(SecretId=secret).get("VersionIdsToStages", {})
        return {version: sorted(stages) for version, stages in told.items()}

    def fields(self, secret: str, stage: str = "AWSCURRENT") -> dict[str, str]:
        told = self.vault.get_secret_value(SecretId=secret, VersionStage=stage)
        given: dict[str, str] = json.loads(told["SecretString"])
        return given

    def log(self) -> str:
        told = self.client("logs").filter_log_events(logGroupName=f"/aws/lambda/{self.function}")
        return "\n".join(event["message"] for event in told["events"])

    def logs_in(self, secret: str, stage: str = "AWSCURRENT") -> str:
        fields = self.fields(secret, stage)
        client = SnowflakeClient(ACCOUNT, self.snowflake_address)
        with client.session(fields["user"], RsaKey.of_pem(Secret(fields["private_key"]))) as session:
            return session.current_user()


def client(services: LocalServices, service: str) -> Any:
    return boto3.client(
        service,
        endpoint_url=services.aws_endpoint_url,
        region_name=REGION,
        aws_access_key_id="local",
        aws_secret_access_key="local",
        config=Config(retries={"total_max_attempts": 1}),
    )


def eventually(is_so: Callable[[], bool], told: Callable[[], str]) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not is_so():
        assert time.monotonic() < deadline, told()
        time.sleep(0.2)


def this_machine() -> Target:
    return Target(python="{}.{}".format(*os.sys.version_info[:2]), architecture=os.uname().machine)  # type: ignore[attr-defined]


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return lambda_zip(ROOT, ROOT / "lambdas" / "rotate_keys", this_machine(), tmp_path_factory.mktemp("packed"))


@pytest.fixture(scope="module")
def cloud(services: LocalServices, packed: Path) -> Iterator[Cloud]:
    snowflake, confluent = SnowflakeDouble(ACCOUNT), ConfluentDouble(WHO, refused_for=2)
    with Server(snowflake, 0) as one, Server(confluent, 0) as other:
        threads = [threading.Thread(target=server.serve_forever) for server in (one, other)]
        for thread in threads:
            thread.start()
        try:
            function = deployed(services, packed, snowflake=one.address, confluent=other.address)
            yield Cloud(services, function, snowflake, one.address, confluent, [])
        finally:
            for server in (one, other):
                server.shutdown()
            for thread in threads:
                thread.join(10)


def deployed(services: LocalServices, packed: Path, *, snowflake: str, confluent: str) -> str:
    """The function, as the stack makes it: its role, its settings, and Secrets Manager may call it."""
    name, cloud_secret = f"rotate-keys-{uuid.uuid4().hex[:8]}", f"frazil/test/{uuid.uuid4().hex[:8]}"
    cloud_key = {"cloud_api_key": WHO.key, "cloud_api_secret": WHO.secret.reveal()}
    client(services, "secretsmanager").create_secret(Name=cloud_secret, SecretString=json.dumps(cloud_key))
    trust = {"Effect": "Allow", "Principal": {"Service": "lambda.amazonaws.com"}, "Action": "sts:AssumeRole"}
    document = json.dumps({"Version": "2012-10-17", "Statement": [trust]})
    role = client(services, "iam").create_role(RoleName=name, AssumeRolePolicyDocument=document)["Role"]["Arn"]
    settings = {
        "FRAZIL_ENVIRONMENT": "test",
        "SNOWFLAKE_ACCOUNT": ACCOUNT,
        "CONFLUENT_CLUSTER_ID": "lkc-1",
        "CONFLUENT_KAFKA_REST_ENDPOINT": "https://pkc-1.aws.confluent.cloud",
        "CONFLUENT_REGISTRY_ID": "lsrc-1",
        "CONFLUENT_REGISTRY_URL": "https://psrc-1.aws.confluent.cloud",
        "CONFLUENT_CLOUD_SECRET": cloud_secret,
        "KEYS_TO_RETAIN": "2",
        "FRAZIL_SNOWFLAKE_URL": snowflake,
        "FRAZIL_CONFLUENT_URL": confluent,
    }
    functions = client(services, "lambda")
    functions.create_function(
        FunctionName=name,
        Runtime="python3.13",
        Handler="handler.handler",
        Role=role,
        Code={"ZipFile": packed.read_bytes()},
        Timeout=60,
        Environment={"Variables": settings},
    )
    functions.add_permission(
        FunctionName=name,
        StatementId="secrets-manager",
        Action="lambda:InvokeFunction",
        Principal="secretsmanager.amazonaws.com",
    )
    return name


@dataclass(frozen=True)
class Users:
    """A user whose keys another may change; their secrets."""

    loader: str
    loader_secret: str
    rotator_secret: str


@pytest.fixture
def users(cloud: Cloud) -> Users:
    """As `create` makes them: first keys by the function, users with the public halves."""
    loader, rotator = (f"{word}_{uuid.uuid4().hex[:6]}".upper() for word in ("LOADER", "ROTATOR"))
    rotator_secret = cloud.secret(rotates="snowflake_rsa", user=rotator)
    loader_secret = cloud.secret(rotates="snowflake_rsa", user=loader, rotator_secret=rotator_secret)
    for user, secret in ((loader, loader_secret), (rotator, rotator_secret)):
        cloud.snowflake.add_user(user, cloud.invoke("firstKey", secret)["public_key"])
    cloud.snowflake.grant(MODIFY, on=loader, to=rotator)
    cloud.snowflake.grant(MODIFY, on=rotator, to=rotator)
    return Users(loader, loader_secret, rotator_secret)


def test_the_same_sources_make_the_same_small_zip(packed: Path, tmp_path: Path) -> None:
    again = lambda_zip(ROOT, ROOT / "lambdas" / "rotate_keys", this_machine(), tmp_path)

    names = zipfile.ZipFile(packed).namelist()
    assert hashlib.sha256(again.read_bytes()).digest() == hashlib.sha256(packed.read_bytes()).digest()
    assert packed.stat().st_size <= MOST_BYTES
    assert {"handler.py", "lambdas/rotate_keys/handler.py", "shared/confluent_api.py"} <= set(names)
    assert not [name for name in names if name.startswith(("boto3/", "botocore/", "infra/stacks/", "frazil/adapters/"))]


NOT_ALLOWED = {
    "success": False,
    "code": "390422",
    "message": "Incoming request with IP/Token 203.0.113.1 is not allowed to access Snowflake.",
    "data": None,
}


@pytest.mark.parametrize("answer", [Answer(403), Answer(200, NOT_ALLOWED)], ids=["403", "network-policy"])
def test_a_login_that_fails_for_another_reason_than_the_key_fails_the_plan(
    cloud: Cloud, users: Users, answer: Answer
) -> None:
    cloud.rotated(users.loader_secret)
    keys = dict(cloud.snowflake.users[users.loader].keys)
    cloud.snowflake.next_answers += [answer] * 3

    told = cloud.client("lambda").invoke(
        FunctionName=cloud.function,
        Payload=json.dumps({"Step": "installedKeys", "SecretId": users.loader_secret}),
    )
    words = json.loads(told["Payload"].read())
    cloud.snowflake.next_answers.clear()

    assert told["FunctionError"] == "Unhandled"
    assert f"Cannot read the public keys of {users.loader}, so none is changed" in words["errorMessage"]
    assert cloud.invoke("installedKeys", users.loader_secret) == keys


def test_an_outage_passes_and_secrets_manager_tries_again(cloud: Cloud, users: Users) -> None:
    cloud.snowflake.next_answers += [Answer(403)]

    cloud.rotated(users.loader_secret)

    assert "refused the login of" in cloud.log()
    assert cloud.logs_in(users.loader_secret) == users.loader


def test_a_failed_rotation_leaves_the_old_key_and_the_next_call_takes_it_up(cloud: Cloud, users: Users) -> None:
    rotator = next(user for user in cloud.snowflake.users.values() if users.loader in user.may)
    granted = rotator.may.pop(users.loader)
    before = cloud.fields(users.loader_secret)
    version = cloud.rotate(users.loader_secret)
    eventually(lambda: refusals(cloud, users.loader) >= ATTEMPTS, cloud.log)

    assert cloud.fields(users.loader_secret) == before
    assert cloud.logs_in(users.loader_secret) == users.loader
    rotator.may[users.loader] = granted
    with pytest.raises(cloud.vault.exceptions.InvalidRequestException, match="isn't complete"):
        cloud.rotate(users.loader_secret)
    eventually(lambda: cloud.stages(users.loader_secret).get(version) == ["AWSCURRENT"], cloud.log)


def test_a_clock_that_is_off_fails_the_rotation_and_the_old_key_stays(
    cloud: Cloud, users: Users, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = cloud.fields(users.loader_secret)
    with monkeypatch.context() as off:
        off.setattr(cloud.snowflake, "_now", lambda: time.time() + 300)
        version = cloud.rotate(users.loader_secret)
        refused = lambda: cloud.log().count("JWT token is invalid")  # noqa: E731
        eventually(lambda: refused() >= ATTEMPTS, cloud.log)
    names = {reason.name for reason in cloud.snowflake.failures.values()}

    assert "JWT_TOKEN_INVALID_ISSUE_TIME" in names
    assert cloud.fields(users.loader_secret) == before
    assert cloud.stages(users.loader_secret)[version] == ["AWSPENDING"]
    assert cloud.logs_in(users.loader_secret) == users.loader


def refusals(cloud: Cloud, user: str) -> int:
    """How often the privilege was missing, as the log of the function says."""
    return cloud.log().count(f"User '{user}' does not exist or not authorized")


def test_a_secret_that_is_still_empty_rotates_for_confluent_and_retires_the_oldest(cloud: Cloud) -> None:
    owner = f"sa-{uuid.uuid4().hex[:6]}"
    secret = cloud.secret(rotates="confluent_api_key", account="producer", owner=owner)

    values = []
    for _ in range(3):
        cloud.rotated(secret)
        values.append(cloud.fields(secret))

    assert values[2].keys() == {"kafka_api_key", "kafka_api_secret", "registry_api_key", "registry_api_secret"}
    kept = {key for key, told in cloud.confluent._kept.items() if told.spec["owner"]["id"] == owner}
    assert kept == {value[f"{part}_api_key"] for value in values[1:] for part in ("kafka", "registry")}


def test_secrets_manager_may_not_rotate_by_a_function_that_does_not_let_it(cloud: Cloud, users: Users) -> None:
    cloud.client("lambda").remove_permission(FunctionName=cloud.function, StatementId="secrets-manager")
    try:
        with pytest.raises(cloud.vault.exceptions.ClientError, match="cannot invoke the specified Lambda function"):
            cloud.rotate(users.loader_secret)
    finally:
        cloud.client("lambda").add_permission(
            FunctionName=cloud.function,
            StatementId="secrets-manager",
            Action="lambda:InvokeFunction",
            Principal="secretsmanager.amazonaws.com",
        )


def test_no_secret_is_in_a_log_an_answer_or_a_file_of_the_cloud(cloud: Cloud, users: Users) -> None:
    """Of everything that this module rotated; what a JSON string makes of line ends is looked for, too."""
    cloud.rotated(users.loader_secret)

    secrets = list(key_material(cloud))
    assert len(secrets) > 5
    said = {"log": cloud.log(), "answers": "\n".join(cloud.said), "statements": "\n".join(cloud.snowflake.statements)}
    said["function"] = json.dumps(cloud.client("lambda").get_function(FunctionName=cloud.function), default=str)
    for number, secret in enumerate(secrets):
        assert [name for name, text in said.items() if secret in text] == [], f"secret {number}"
    assert files_with(secrets) == []


def key_material(cloud: Cloud) -> Iterator[str]:
    """A line from the middle of each private key, and each API secret, of every version that there is."""
    yield WHO.secret.reveal()
    for page in cloud.vault.get_paginator("list_secrets").paginate():
        for listed in page["SecretList"]:
            versions = cloud.vault.list_secret_version_ids(SecretId=listed["ARN"], IncludeDeprecated=True)["Versions"]
            for version in versions:
                told = cloud.vault.get_secret_value(SecretId=listed["ARN"], VersionId=version["VersionId"])
                yield from secrets_of(told.get("SecretString", ""))


def secrets_of(text: str) -> Iterator[str]:
    fields = json.loads(text) if text.startswith("{") else {}
    for name, value in fields.items():
        if name.endswith("_api_secret"):
            yield value
        elif name == "private_key":
            yield value.splitlines()[5]


def files_with(secrets: Sequence[str]) -> list[str]:
    """Everything that the services wrote down, each file read once: the record of calls, logs, what functions left."""
    any_of_them = re.compile(b"|".join(re.escape(secret.encode()) for secret in secrets))
    folder = Path(os.environ["FRAZIL_TEST_SERVICES"])
    return [str(path) for path in folder.rglob("*") if path.is_file() and any_of_them.search(_content(path))]


def _content(path: Path) -> bytes:
    """The broker's indexes are 10 MB of room for numbers each, and hold no text."""
    if path.suffix in {".index", ".timeindex"}:
        return b""
    content = path.read_bytes()
    return gzip.decompress(content) if path.suffix == ".gz" else content
