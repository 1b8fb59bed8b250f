"""`frazil status` lists the configuration's keys from the AWS double, without their values."""

from __future__ import annotations

import json
import uuid
from pathlib import Path

import boto3
import pytest
from breadth import REGION

from frazil.cli import app
from frazil.local.supervisor import LocalServices

FILE = """
kafka: {{bootstrap.servers: "127.0.0.1:1"}}
schema_registry:
  url: http://127.0.0.1:1
  basic.auth.user.info: ${{secret:{name}#user}}
snowflake:
  account: ACME-LAKE
  database: D
  schema: S
  reader: {{user: R, private_key: "${{secret:{name}-gone#private_key}}"}}
"""


@pytest.fixture
def config(services: LocalServices, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, value in {
        "AWS_ENDPOINT_URL": services.aws_endpoint_url,
        "AWS_ACCESS_KEY_ID": "local",
        "AWS_SECRET_ACCESS_KEY": "local",
        "AWS_DEFAULT_REGION": REGION,
    }.items():
        monkeypatch.setenv(name, value)
    name = f"frazil/test/{uuid.uuid4().hex[:8]}"
    boto3.client("secretsmanager").create_secret(Name=name, SecretString='{"user": "me:hush"}')
    (tmp_path / "tables").mkdir()
    (tmp_path / "tables" / "a.yaml").write_text("topic: orders")
    (tmp_path / "frazil.yaml").write_text(FILE.format(name=name))
    return tmp_path / "frazil.yaml"


def test_keys_are_shown_with_their_age(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert app.run(["status", "--keys", "--json", "--config", str(config)]) == 0

    text = capsys.readouterr().out
    there, gone = json.loads(text)
    assert (there["state"], there["schedule"]) == ("by hand", None)
    assert 0 <= there["age_seconds"] < 600
    assert gone["warnings"] == ["the secret does not exist in this account and region"]
    assert "hush" not in text

    assert app.run(["status", "--keys", "--config", str(config)]) == 0
    shown = capsys.readouterr().out
    assert there["secret"] in shown
    assert f"{gone['secret']}: the secret does not exist" in shown
