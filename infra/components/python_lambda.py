"""A Lambda function in Python, from a folder of lambdas/ or from a zip with its packages."""

from __future__ import annotations

import base64
import hashlib
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from infra.artefacts.archive import files_under, zip_of
from infra.artefacts.artefact import Artefact
from infra.cdk import App, Construct, Stack
from infra.components.log_group import LogGroup
from infra.components.role import Role
from infra.permissions import iam
from infra.resources import aws

RUNTIME = "python3.13"
ARCHITECTURE = "arm64"
ASSETS = "assets"


@dataclass(frozen=True, slots=True)
class Uploaded:
    """A zip in the lake's bucket: one of more than 50 MB cannot be a part of the request that makes a function."""

    artefact: Artefact
    bucket: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Function:
    """A function. `code` is a finished zip, or a folder that needs only what Lambda provides, such as boto3.

    Either has `handler.py` at its top, with a function `handler`.

    `at_once`: how many may run at the same time, as many as asked where None. `dead_letters`: the ARN of the queue that
    gets the event of an asynchronous invocation that failed each time.
    """

    name: str
    description: str
    code: Path | Uploaded
    timeout_seconds: int
    memory_mb: int = 256
    at_once: int | None = None
    dead_letters: str | None = None
    environment: Mapping[str, str] = field(default_factory=dict)


class PythonLambda(Construct):
    """The function, its role, and its log group, which it may write to but not create.

    What invokes it must depend on `ready`, the policy of its role.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        /,
        function: Function,
        *,
        may: tuple[iam.Statement, ...],
        key_arn: str,
        log_retention_days: int,
    ) -> None:
        super().__init__(scope, construct_id)
        self.log_group = LogGroup(
            self, "logs", name=f"/aws/lambda/{function.name}", key_arn=key_arn, retention_days=log_retention_days
        )
        self.role = Role(
            self,
            "acts-as",
            name=function.name,
            description=function.description,
            trust=iam.trust_service("lambda.amazonaws.com"),
            policy=iam.Policy((*may, self.log_group.writing)),
        )
        self.function = self._function(function, _pack(self, function))
        self.ready = self.role.policy
        self.arn = self.function.arn
        self.name = self.function.function_name

    def _function(self, function: Function, packed: _Packed) -> aws.LambdaFunction:
        variables = aws.LambdaFunction_Environment(variables=function.environment) if function.environment else None
        queue = function.dead_letters
        return aws.LambdaFunction(
            self,
            "function",
            function_name=function.name,
            description=function.description,
            role=self.role.arn,
            runtime=RUNTIME,
            architectures=[ARCHITECTURE],
            handler="handler.handler",
            filename=packed.path,
            s3_bucket=packed.bucket,
            s3_key=packed.key,
            source_code_hash=packed.hash,
            timeout=function.timeout_seconds,
            memory_size=function.memory_mb,
            reserved_concurrent_executions=function.at_once,
            environment=variables,
            dead_letter_config=None if queue is None else aws.LambdaFunction_DeadLetterConfig(target_arn=queue),
            logging_config=aws.LambdaFunction_LoggingConfig(log_format="JSON", log_group=self.log_group.name),
            depends_on=[self.role.policy],
        )


@dataclass(frozen=True, slots=True)
class _Packed:
    """A zip in the folder of its stack, because a remote run gets nothing else, or in a bucket.

    `hash` is in Lambda's format.
    """

    hash: str
    path: str | None = None
    bucket: str | None = None
    key: str | None = None


def _pack(scope: Construct, function: Function) -> _Packed:
    if isinstance(function.code, Uploaded):
        artefact = function.code.artefact
        return _Packed(_as_lambda_writes(bytes.fromhex(artefact.sha256)), None, function.code.bucket, artefact.key)
    path = f"{ASSETS}/{function.name}.zip"
    target = Path(App.of(scope).outdir, "stacks", Stack.of(scope).node.id, path)
    target.parent.mkdir(parents=True, exist_ok=True)
    if function.code.is_dir():
        files = [(file.relative_to(function.code).as_posix(), file) for file in files_under(function.code)]
        zip_of(((name, file.read_bytes()) for name, file in files), target)
    else:
        shutil.copyfile(function.code, target)
    return _Packed(_as_lambda_writes(hashlib.sha256(target.read_bytes()).digest()), path)


def _as_lambda_writes(digest: bytes) -> str:
    return base64.b64encode(digest).decode()
