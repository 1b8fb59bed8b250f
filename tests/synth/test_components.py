"""What stacks are made of, where it is more than what the stacks' own tests see."""

from __future__ import annotations

import base64
import hashlib
import os
import zipfile
from pathlib import Path
from typing import Any

from written import Written, dev, write

from infra.cdk import App, Stack
from infra.components.backends import keep_state
from infra.components.python_lambda import Function, PythonLambda
from infra.components.region import enter_region
from infra.permissions.iam import Statement

MAY = Statement(sid="Stop", actions=("emr-serverless:StopApplication",), resources=("arn:aws:emr-serverless:x:1:/a",))


def with_function(out: Path, folder: Path, **changes: Any) -> Written:
    settings = dev()
    function = Function(
        name="frazil-dev-keeper", description="Keeps", code=folder, timeout_seconds=60, at_once=1, **changes
    )

    def build(app: App) -> None:
        stack = Stack(app, "jobs")
        keep_state(stack, settings)
        enter_region(stack, settings)
        PythonLambda(stack, "keeper", function, may=(MAY,), key_arn="arn:aws:kms:x:1:key/1", log_retention_days=30)

    return write(out, settings, build)["jobs"]


def sources(folder: Path) -> Path:
    (folder / "inner").mkdir(parents=True)
    (folder / "handler.py").write_text("def handler(event, context): return event\n")
    (folder / "inner" / "more.py").write_text("X = 1\n")
    (folder / "__pycache__").mkdir()
    (folder / "__pycache__" / "handler.pyc").write_bytes(b"left behind")
    return folder


def test_a_function_writes_to_its_own_log_group_and_may_do_what_it_must(tmp_path: Path) -> None:
    stack = with_function(tmp_path / "out", sources(tmp_path / "code"))

    function = stack.one("aws_lambda_function")
    assert {name: each for name, each in function.items() if name not in ("source_code_hash", "depends_on")} == {
        "function_name": "frazil-dev-keeper",
        "description": "Keeps",
        "role": "{keeper/acts-as/role.arn}",
        "runtime": "python3.13",
        "architectures": ["arm64"],
        "handler": "handler.handler",
        "filename": "assets/frazil-dev-keeper.zip",
        "timeout": 60,
        "memory_size": 256,
        "reserved_concurrent_executions": 1,
        "logging_config": {"log_format": "JSON", "log_group": "{keeper/logs/group.name}"},
    }
    assert stack.one("aws_cloudwatch_log_group") == {
        "name": "/aws/lambda/frazil-dev-keeper",
        "kms_key_id": "arn:aws:kms:x:1:key/1",
        "retention_in_days": 30,
    }
    assert stack.policy("aws_iam_role_policy", "keeper/acts-as/policy") == [
        MAY.document(),
        {
            "Sid": "WriteLogs",
            "Effect": "Allow",
            "Action": ["logs:CreateLogStream", "logs:PutLogEvents"],
            "Resource": "{keeper/logs/group.arn}:log-stream:*",
        },
    ]


def test_its_zip_lies_in_the_folder_of_the_stack_and_terraform_knows_its_hash(tmp_path: Path) -> None:
    stack = with_function(tmp_path / "out", sources(tmp_path / "code"))

    function = stack.one("aws_lambda_function")
    packed = stack.folder / function["filename"]
    assert base64.b64decode(function["source_code_hash"]) == hashlib.sha256(packed.read_bytes()).digest()
    assert zipfile.ZipFile(packed).namelist() == ["handler.py", "inner/more.py"]
    assert not list(packed.parent.glob("*.unfinished"))


def test_the_same_sources_give_the_same_zip_whenever_they_were_written(tmp_path: Path) -> None:
    code = sources(tmp_path / "code")
    first = with_function(tmp_path / "first", code).one("aws_lambda_function")
    os.utime(code / "handler.py", (1, 1))

    second = with_function(tmp_path / "second", code).one("aws_lambda_function")

    assert second == first
