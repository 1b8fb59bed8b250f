"""The stack of the exports, applied to the double of AWS: its schedule runs the packed function on a table in Glue."""

from __future__ import annotations

import json
import os
import platform
import re
import shutil
import sys
import urllib.request
import uuid
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from cloud import REGION, Cloud
from mails import opened
from permission_proof import Account, granted_to, needed_by, refused, unused
from pyiceberg.catalog import load_catalog
from waiting import eventually

from infra.artefacts.artefact import Artefact, artefact_of
from infra.artefacts.environment import Target
from infra.artefacts.lambda_zip import MOST_BYTES, lambda_zip
from infra.cdk import App
from infra.components.kafka import external
from infra.guards.aspect import synthesize
from infra.settings.file import load_environment
from infra.settings.model import ExternalKafka
from infra.stacks.exports import ExportsStack
from infra.stacks.lake import LakeStack
from infra.terraform.prepare import prepare_for_doubles
from infra.terraform.runner import Terraform
from infra.wanted.exports import have_links, wanted_exports

pytestmark = [
    pytest.mark.skipif(shutil.which("terraform") is None, reason="Terraform is not installed"),
    pytest.mark.timeout(600),
]

ROOT = Path(__file__).parents[2]
HERE = Target("{}.{}".format(*sys.version_info[:2]), platform.machine())
"""Packed as for AWS, with wheels that are fetched by hash, and not with what is installed here."""
ACCOUNT = "123456789012"
DATABASE, TABLE = "lake_of_exports", "orders"
FULL_LOG = {"write.metadata.delete-after-commit.enabled": "true", "write.metadata.previous-versions-max": "1"}
"""Of a table whose every commit deletes a metadata file, as those of Frazil do after enough commits."""

FUNCTION = "frazil-small-exports"
TOPICS = f"arn:aws:sns:{REGION}:{ACCOUNT}"
ROLE = f"arn:aws:iam::{ACCOUNT}:role/{FUNCTION}"
ENVIRONMENT = """
region: us-east-1
kafka:
  external:
    {name: kafka, bootstrap.servers: "b:9092", security.protocol: plaintext, registry: {url: "http://r:8081"}}
exports:
  weekly: {schedule: "cron(0 7 ? * MON *)", mail: [finance@example.com]}
"""
SPEC = """
table: orders
to: .frazil/exports
window: {column: ordered_at, time_zone: Europe/Berlin}
columns: [order_id, customer]
link: 7d
"""
ROWS = b'"order_id","customer"\r\n1,"anna"\r\n2,"\'=cleo"\r\n'
"""Of the last week, as the file has them."""


@dataclass(frozen=True)
class Lake:
    """A bucket and a table with three rows, two of them of the last whole week."""

    cloud: Cloud
    bucket: str
    key: str

    def told(self, output: str) -> str:
        """Return an output of the stack `lake`, which is not applied here."""
        if output.endswith("account_id"):
            return ACCOUNT
        if "kms_key" in output:
            return self.key
        if output.endswith("bucket_regional_domain_name"):
            return f"{self.bucket}.s3.{REGION}.amazonaws.com"
        if "database" in output:
            return DATABASE
        return f"arn:aws:s3:::{self.bucket}" if output.endswith("arn") else self.bucket


@pytest.fixture
def lake(cloud: Cloud) -> Lake:
    bucket = cloud.bucket()
    here = {"endpoint": cloud.endpoint_url, "access-key-id": "local", "secret-access-key": "local", "region": REGION}
    properties = {f"{of}.{name}": value for of in ("s3", "glue") for name, value in here.items()}
    catalog = load_catalog("lake", type="glue", warehouse=f"s3://{bucket}/kafka", **properties)
    schema = pa.schema([("order_id", pa.int64()), ("customer", pa.string()), ("ordered_at", pa.timestamp("us", "UTC"))])
    now = datetime.now(UTC)
    last_week = now - timedelta(days=now.weekday() + 4)  # Wednesday or Thursday, in every time zone
    times = [last_week, last_week + timedelta(days=1), last_week - timedelta(days=7)]
    catalog.create_namespace(DATABASE)
    location = f"s3://{bucket}/kafka/{TABLE}"
    table = catalog.create_table(f"{DATABASE}.{TABLE}", schema, location=location, properties=FULL_LOG)
    table.append(pa.table([[1, 2, 3], ["anna", "=cleo", "ben"], times], schema=schema))
    return Lake(cloud, bucket, cloud.client("kms").create_key()["KeyMetadata"]["Arn"])


@pytest.fixture(scope="session")
def packed() -> Path:
    """The function as it is deployed, for the Python that the double runs."""
    return lambda_zip(ROOT, ROOT / "lambdas" / "export_csv", HERE, ROOT / ".frazil" / "artefacts")


def test_the_packed_function_is_within_what_lambda_takes(packed: Path) -> None:
    size = sum(each.file_size for each in zipfile.ZipFile(packed).infolist())

    assert 150_000_000 < size <= MOST_BYTES


def synthesized(folder: Path, lake: Lake, function: Artefact) -> None:
    (folder / "exports").mkdir()
    (folder / "exports" / "weekly.yaml").write_text(SPEC)
    (folder / "small.yaml").write_text(ENVIRONMENT)
    settings = load_environment("small", {}, folder=folder)
    settings = replace(settings, lake=replace(settings.lake, catalog={"s3.endpoint": lake.cloud.endpoint_url}))
    exports = wanted_exports(settings, folder / "exports", {})
    assert isinstance(settings.kafka, ExternalKafka)
    app = App(outdir=str(folder / "cdktf.out"))
    made = LakeStack(app, settings, kafka=external(settings.kafka), links=have_links(exports))
    ExportsStack(app, settings, lake=made, alarms_topic_arn=f"{TOPICS}:alarms", exports=exports, packed=function)
    synthesize(app, production=False)
    asked = (folder / "cdktf.out" / "stacks" / "exports" / "cdk.tf.json").read_text()
    names = re.findall(r"cross-stack-reference-input-lake\.outputs\.([\w-]+)", asked)
    outputs = {name: {"type": "string", "value": lake.told(name)} for name in names}
    (folder / "state").mkdir()
    state = {"version": 4, "serial": 1, "lineage": "lake", "outputs": outputs, "resources": []}
    (folder / "state" / "lake.tfstate").write_text(json.dumps(state))


def terraform(cloud: Cloud, folder: Path, provider: Mapping[str, str]) -> Terraform:
    directory = folder / "cdktf.out" / "stacks" / "exports"
    nobody = {"AWS_ACCESS_KEY_ID": "local", "AWS_SECRET_ACCESS_KEY": "local", "AWS_ENDPOINT_URL": cloud.endpoint_url}
    env = {**os.environ, **nobody, **provider, **prepare_for_doubles(directory, folder)}
    ready = Terraform("exports", directory, env, folder / "log", lambda _: None)
    ready.init()
    return ready


@dataclass(frozen=True)
class Inbox:
    """A queue that gets what is published to a topic."""

    client: Any
    queue: str

    def take(self) -> list[dict[str, Any]]:
        """Return the messages since the last call."""
        found = self.client.receive_message(QueueUrl=self.queue, MaxNumberOfMessages=10).get("Messages", [])
        for each in found:
            self.client.delete_message(QueueUrl=self.queue, ReceiptHandle=each["ReceiptHandle"])
        return [json.loads(each["Body"]) for each in found]


def subscribed(cloud: Cloud, topic: str) -> Inbox:
    sqs, name = cloud.client("sqs"), f"mails-{uuid.uuid4().hex[:8]}"
    queue = sqs.create_queue(QueueName=name)["QueueUrl"]
    cloud.client("sns").subscribe(
        TopicArn=f"{TOPICS}:{topic}", Protocol="sqs", Endpoint=f"arn:aws:sqs:{REGION}:{ACCOUNT}:{name}"
    )
    return Inbox(sqs, queue)


def fire(cloud: Cloud) -> None:
    """Call the target of the schedule, as if its time had come; the double answers when the function has ended."""
    path = "_double/schedules/frazil-small-exports/frazil-small-export-weekly/fire"
    with urllib.request.urlopen(f"{cloud.endpoint_url}/{path}", data=b"", timeout=120) as answer:
        assert answer.status == 200


def log(cloud: Cloud) -> list[dict[str, Any]]:
    """Return what the function printed: one line for each run."""
    events = cloud.client("logs").filter_log_events(logGroupName=f"/aws/lambda/{FUNCTION}")["events"]
    return [json.loads(each["message"]) for each in events if each["message"].startswith("{")]


def test_the_schedule_exports_the_last_week_and_its_mail_has_links_that_open_the_rows(
    lake: Lake, packed: Path, tmp_path: Path, aws_provider: Mapping[str, str]
) -> None:
    cloud, function = lake.cloud, artefact_of(packed)
    cloud.client("s3").upload_file(str(packed), lake.bucket, function.key)
    synthesized(tmp_path, lake, function)
    stack = terraform(cloud, tmp_path, aws_provider)
    stack.apply()
    assert not stack.plan(), "another `create` would change what the double forgot"
    inbox = subscribed(cloud, "frazil-small-export-weekly")
    cloud.client("sns").create_topic(Name="alarms")
    alarms = subscribed(cloud, "alarms")

    fire(cloud)
    fire(cloud)

    (mail,) = eventually(inbox.take, bool, most_seconds=60, explain=lambda: str(log(cloud)))
    assert re.fullmatch(r"weekly \d{4}-W\d\d: 2 rows", mail["Subject"])
    rows, manifest = (line for line in mail["Message"].splitlines() if line.startswith("https://"))
    assert opened(cloud.endpoint_url, rows) == (200, ROWS)
    assert json.loads(opened(cloud.endpoint_url, manifest)[1])["rows"] == 2
    assert opened(cloud.endpoint_url, rows.replace("_part_1", "_part_2"))[0] == 403
    assert opened(cloud.endpoint_url, rows.partition("?")[0]) == (403, b"MissingKey")
    first, second = log(cloud)
    assert (first["rows"], first["announced"], first["recipients"], first["unconfirmed"]) == (2, 1, 2, 0)
    assert (second["rows"], second["announced"]) == (0, 0)
    assert inbox.take() == []

    cloud.client("lambda").invoke(
        FunctionName=FUNCTION, InvocationType="Event", Payload=json.dumps({"export": "weekli"})
    )

    failed = Inbox(cloud.client("sqs"), stack.outputs()["failed_exports_queue"])
    assert failed.take() == [{"export": "weekli"}]
    assert [each["why"].splitlines()[-1] for each in log(cloud)[2:]] == ["hint: did you mean weekly?"] * 3
    (told,) = alarms.take()
    record = json.loads(told["Message"])
    assert record["requestPayload"] == {"export": "weekli"}
    assert "the environment has no export weekli" in record["responsePayload"]["errorMessage"]

    listed = cloud.client("secretsmanager").list_secrets(MaxResults=100)["SecretList"]
    account = Account(ACCOUNT, REGION, lake.key, {each["Name"]: each["ARN"] for each in listed})
    needs = {need for call in cloud.calls(ROLE) for need in needed_by(call, account)}
    granted = granted_to(cloud.client("iam"), FUNCTION)
    assert refused(needs, granted) == set()
    assert unused(granted, needs) == set()

    stack.destroy()

    cloudfront = cloud.client("cloudfront")
    assert cloudfront.list_distributions()["DistributionList"].get("Items", []) == []
    assert cloudfront.list_public_keys()["PublicKeyList"].get("Items", []) == []
