from __future__ import annotations

import uuid
from concurrent.futures import ThreadPoolExecutor

import boto3
import pyarrow as pa
import pytest
from botocore.exceptions import ClientError
from pyiceberg.catalog import Catalog, load_catalog

from frazil.local.supervisor import LocalServices

WRITERS, APPENDS = 2, 4


@pytest.fixture
def client(services: LocalServices):  # type: ignore[no-untyped-def]
    return lambda name: boto3.client(
        name,
        endpoint_url=services.aws_endpoint_url,
        region_name="us-east-1",
        aws_access_key_id="local",
        aws_secret_access_key="local",
    )


@pytest.fixture
def database(client) -> str:  # type: ignore[no-untyped-def]
    """A bucket and a Glue database of the same, unused name."""
    name = f"db-{uuid.uuid4().hex[:8]}"
    client("s3").create_bucket(Bucket=name)
    client("glue").create_database(DatabaseInput={"Name": name})
    return name


def catalog(services: LocalServices, bucket: str) -> Catalog:
    identity = {"access-key-id": "local", "secret-access-key": "local", "region": "us-east-1"}
    settings = {f"{part}.{key}": value for part in ("glue", "s3") for key, value in identity.items()}
    endpoints = {f"{part}.endpoint": services.aws_endpoint_url for part in ("glue", "s3")}
    return load_catalog("glue", type="glue", warehouse=f"s3://{bucket}/lake", **settings, **endpoints)


def test_an_update_with_a_stale_version_is_refused(client, database: str) -> None:  # type: ignore[no-untyped-def]
    glue, table = client("glue"), {"Name": "t", "Parameters": {}}
    glue.create_table(DatabaseName=database, TableInput=table)
    read = glue.get_table(DatabaseName=database, Name="t")["Table"]["VersionId"]
    glue.update_table(DatabaseName=database, TableInput=table, VersionId=read)

    with pytest.raises(ClientError) as refused:
        glue.update_table(DatabaseName=database, TableInput=table, VersionId=read)

    assert refused.value.response["Error"]["Code"] == "ConcurrentModificationException"


def test_two_racing_writers_lose_no_commit(services: LocalServices, database: str) -> None:
    patient = {"commit.retry.num-retries": "50", "commit.retry.min-wait-ms": "10", "commit.retry.max-wait-ms": "100"}
    schema = pa.schema([("writer", pa.int64()), ("number", pa.int64())])
    catalog(services, database).create_table(f"{database}.t", schema, properties=patient)

    def write(writer: int) -> None:
        table = catalog(services, database).load_table(f"{database}.t")
        for number in range(APPENDS):
            table.append(pa.table({"writer": [writer], "number": [number]}, schema=schema))

    with ThreadPoolExecutor(WRITERS) as pool:
        list(pool.map(write, range(WRITERS)))

    rows = catalog(services, database).load_table(f"{database}.t").scan().to_arrow().to_pylist()
    expected = {(writer, number) for writer in range(WRITERS) for number in range(APPENDS)}
    assert sorted((row["writer"], row["number"]) for row in rows) == sorted(expected)
