"""The double of AWS as tests see it: clients, roles, and what became of a job run."""

from __future__ import annotations

import io
import json
import uuid
import zipfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3
from botocore.config import Config

REGION = "us-east-1"
ENDED = ("SUCCESS", "FAILED", "CANCELLED")


@dataclass(frozen=True)
class Cloud:
    """`folder` is the double's own."""

    endpoint_url: str
    folder: Path

    def client(self, service: str) -> Any:
        return boto3.client(
            service,
            endpoint_url=self.endpoint_url,
            region_name=REGION,
            aws_access_key_id="local",
            aws_secret_access_key="local",
            config=Config(retries={"total_max_attempts": 1}, s3={"addressing_style": "path"}),
        )

    def bucket(self, **objects: bytes | str) -> str:
        """A new bucket that holds the objects under their names."""
        name = f"bucket-{uuid.uuid4().hex[:8]}"
        self.client("s3").create_bucket(Bucket=name)
        for key, content in objects.items():
            self.client("s3").put_object(Bucket=name, Key=key, Body=content)
        return name

    def role(self, service: str) -> str:
        """The ARN of a new role that the service may assume."""
        trust = {"Effect": "Allow", "Principal": {"Service": service}, "Action": "sts:AssumeRole"}
        document = json.dumps({"Version": "2012-10-17", "Statement": [trust]})
        name = f"role-{uuid.uuid4().hex[:8]}"
        made = self.client("iam").create_role(RoleName=name, AssumeRolePolicyDocument=document)
        return str(made["Role"]["Arn"])

    def calls(self, principal: str) -> list[dict[str, Any]]:
        """What the record says that a role or `user` called, in order."""
        lines = (self.folder / "calls.jsonl").read_text(encoding="utf-8").splitlines()
        return [call for call in map(json.loads, lines) if call["principal"] == principal]


def zipped(**files: str) -> bytes:
    """A zip of Python files, named without their suffix."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name, content in files.items():
            archive.writestr(f"{name}.py", content)
    return packed.getvalue()


def names(calls: Iterable[dict[str, Any]]) -> set[str]:
    """The calls as IAM would name most of them."""
    return {f"{call['service']}:{call['operation']}" for call in calls}
