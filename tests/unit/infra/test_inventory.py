from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, date, datetime
from types import SimpleNamespace
from typing import Any

import boto3
import pytest
from botocore.client import BaseClient
from botocore.exceptions import ClientError
from confluent_in_memory import WHO, Wire, cloud_over
from moto import mock_aws

from devcloud.confluent_double import ConfluentDouble
from infra.artefacts.artefact import Artefact, Artefacts
from infra.artefacts.upload import sweep
from infra.deploy.deleting.emptying import empty_bucket, remove_databases, remove_log_groups, remove_roles
from infra.deploy.deleting.inventory import Inventory, Names, Resource, compare, in_confluent, in_snowflake, look
from infra.deploy.deleting.released_names import release_names
from infra.deploy.tables.listed_tables import tables_in_glue
from shared.confluent_api import NewKey

NAMES = Names("frazil-dev", "frazil-dev-lake", "lkc_1", "frazil/dev/", ("/frazil/dev/", "/aws/lambda/frazil-dev-"))
ROLE = '{"Version": "2012-10-17", "Statement": []}'


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    monkeypatch.setenv("MOTO_EC2_LOAD_DEFAULT_AMIS", "false")  # a third of the time
    with mock_aws():
        yield boto3.Session(region_name="eu-central-1")


def make_one_of_each(session: Any, *, name: str) -> None:
    session.client("s3").create_bucket(
        Bucket=f"{name}-lake", CreateBucketConfiguration={"LocationConstraint": "eu-central-1"}
    )
    session.client("secretsmanager").create_secret(Name=f"{name.replace('-', '/', 1)}/manager", SecretString="{}")
    session.client("logs").create_log_group(logGroupName=f"/aws/lambda/{name}-keeper")
    session.client("iam").create_role(RoleName=f"{name}-job", AssumeRolePolicyDocument=ROLE)
    session.client("kms").create_key(Tags=[{"TagKey": "Name", "TagValue": f"{name}-lake"}])
    session.client("sns").create_topic(Name=f"{name}-alarms")
    session.client("sqs").create_queue(QueueName=f"{name}-missed")
    make_served(session.client("cloudfront"), name=f"{name}-exports")
    ec2, route53 = session.client("ec2"), session.client("route53")
    vpc = ec2.create_vpc(CidrBlock="10.0.0.0/16")["Vpc"]["VpcId"]
    gateway = ec2.create_internet_gateway()["InternetGateway"]["InternetGatewayId"]
    routes = ec2.create_route_table(VpcId=vpc)["RouteTable"]["RouteTableId"]
    tag = {"Key": "Name", "Value": f"{name}-part"}
    ec2.create_tags(Resources=[vpc, gateway, routes], Tags=[tag])
    zone = route53.create_hosted_zone(Name="private.example.com", CallerReference=name)["HostedZone"]["Id"]
    route53.change_tags_for_resource(ResourceType="hostedzone", ResourceId=zone.rsplit("/", 1)[-1], AddTags=[tag])


def make_served(cloudfront: Any, *, name: str) -> None:
    key = {"CallerReference": name, "Name": f"{name}-1", "EncodedKey": "-----BEGIN PUBLIC KEY-----\n"}
    made = cloudfront.create_public_key(PublicKeyConfig=key)["PublicKey"]["Id"]
    cloudfront.create_key_group(KeyGroupConfig={"Name": name, "Items": [made]})
    access = {"Name": name, "SigningProtocol": "sigv4", "SigningBehavior": "always"}
    cloudfront.create_origin_access_control(OriginAccessControlConfig={**access, "OriginAccessControlOriginType": "s3"})
    origin = {"Id": "lake", "DomainName": "lake.s3.amazonaws.com", "S3OriginConfig": {"OriginAccessIdentity": ""}}
    cloudfront.create_distribution(
        DistributionConfig={
            "CallerReference": name,
            "Comment": name,
            "Enabled": True,
            "Origins": {"Quantity": 1, "Items": [origin]},
            "DefaultCacheBehavior": {"TargetOriginId": "lake", "ViewerProtocolPolicy": "https-only"},
        }
    )


def test_only_what_is_of_the_environment_is_found(session: Any) -> None:
    make_one_of_each(session, name="frazil-dev")
    make_one_of_each(session, name="other-dev")
    make_one_of_each(session, name="frazil-dev2")

    kinds = [resource.kind for resource in look(session, NAMES)]

    assert kinds == [
        "CloudFront access control",
        "CloudFront distribution",
        "CloudFront key group",
        "CloudFront public key",
        "IAM role",
        "KMS key",
        "Route 53 zone",
        "S3 bucket",
        "SNS topic",
        "SQS queue",
        "VPC",
        "internet gateway",
        "log group",
        "route table",
        "secret",
    ]


def test_of_snowflake_it_is_what_terraform_made_by_its_name_there() -> None:
    made = [
        ("aws_iam_role", "r"),
        ("snowflake_service_user", "FRAZIL_DEV_READER"),
        ("snowflake_database", "FRAZIL_DEV"),
    ]

    found = list(in_snowflake(made))

    assert found == [Resource("Snowflake user", "FRAZIL_DEV_READER"), Resource("Snowflake database", "FRAZIL_DEV")]


def test_of_confluent_it_is_what_has_a_name_of_the_environment_but_the_key_that_asks() -> None:
    double = ConfluentDouble(WHO)
    named = {"frazil-dev-kafka": "env-1", "frazil-development-kafka": "env-2"}
    double.there["/org/v2/environments"] = [{"id": key, "display_name": name} for name, key in named.items()]
    double.there["/cmk/v2/clusters"] = [
        {"id": f"lkc-{key}", "spec": {"display_name": name, "environment": {"id": key}}} for name, key in named.items()
    ]
    double.there["/iam/v2/service-accounts"] = [{"id": "sa-1", "display_name": "frazil-dev-producer"}]
    cloud = cloud_over(Wire(double), [])
    key = cloud.make_key(NewKey(name="frazil-dev-producer-kafka", description="", owner="sa-1", resource="lkc-1"))
    cloud.make_key(NewKey(name="another", description="", owner="sa-2", resource="lkc-1"))

    assert list(in_confluent(cloud, "frazil-dev")) == [
        Resource("Confluent environment", "frazil-dev-kafka (env-1)"),
        Resource("Confluent Kafka cluster", "frazil-dev-kafka (lkc-env-1)"),
        Resource("Confluent service account", "frazil-dev-producer (sa-1)"),
        Resource("Confluent API key", f"frazil-dev-producer-kafka ({key.key})"),
    ]


def test_tables_that_can_be_attached_to_are_those_in_glue(session: Any) -> None:
    glue = session.client("glue")
    glue.create_database(DatabaseInput={"Name": "lkc_1"})
    glue.create_table(DatabaseName="lkc_1", TableInput={"Name": "orders"})

    assert tables_in_glue(glue, "lkc_1") == {"orders"}
    assert tables_in_glue(glue, "lkc_2") == frozenset()


def test_what_aws_removes_later_is_found_with_its_date(session: Any) -> None:
    make_one_of_each(session, name="frazil-dev")
    session.client("secretsmanager").delete_secret(SecretId="frazil/dev/manager", RecoveryWindowInDays=7)
    key = next(resource for resource in look(session, NAMES) if resource.kind == "KMS key")
    session.client("kms").schedule_key_deletion(KeyId=key.name, PendingWindowInDays=7)

    dated = {resource.kind: resource.leaves_on for resource in look(session, NAMES) if resource.leaves_on}

    assert dated.keys() == {"KMS key", "secret"}


def test_a_key_of_others_that_refuses_to_be_asked_about_is_not_ours(
    session: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    kms = session.client("kms")
    foreign = kms.create_key()["KeyMetadata"]["KeyId"]
    ours = kms.create_key()["KeyMetadata"]["KeyId"]
    kms.create_alias(AliasName="alias/frazil-dev-lake", TargetKeyId=ours)
    call = BaseClient._make_api_call

    def refusing(client: Any, operation: str, asked: dict[str, Any]) -> Any:
        if asked.get("KeyId") == foreign:
            raise ClientError({"Error": {"Code": "AccessDeniedException", "Message": "its policy"}}, operation)
        return call(client, operation, asked)

    monkeypatch.setattr(BaseClient, "_make_api_call", refusing)

    assert look(session, NAMES) == [Resource("KMS key", ours)]


def test_an_organization_without_cloudfront_has_nothing_there(session: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    made, call = session.client("sns").create_topic(Name="frazil-dev-alarms")["TopicArn"], BaseClient._make_api_call

    def denied(self: Any, operation: str, asked: Any) -> Any:
        if self.meta.service_model.service_name == "cloudfront":
            raise ClientError({"Error": {"Code": "AccessDenied", "Message": "with an explicit deny"}}, operation)
        return call(self, operation, asked)

    monkeypatch.setattr(BaseClient, "_make_api_call", denied)

    assert [resource.name for resource in look(session, NAMES)] == [made]


def test_a_key_of_an_environment_whose_name_begins_alike_is_not_ours(session: Any) -> None:
    session.client("kms").create_key(Tags=[{"TagKey": "Name", "TagValue": "frazil-dev-two-lake"}])

    assert look(session, NAMES) == []


def test_the_database_that_tableflow_made_is_found_by_the_id_of_the_cluster(session: Any) -> None:
    glue = session.client("glue")
    for name in ("lkc-1", "lkc-2"):
        glue.create_database(DatabaseInput={"Name": name})

    found = [resource.name for resource in look(session, replace(NAMES, cluster="lkc-1"))]
    removed = remove_databases(glue, "frazil-dev-lake", cluster="lkc-1")

    assert found == removed == ["lkc-1"]
    assert [database["Name"] for database in glue.get_databases()["DatabaseList"]] == ["lkc-2"]


def test_a_database_of_a_cluster_that_went_is_found_and_goes_with_the_bucket(session: Any) -> None:
    glue = session.client("glue")
    for name, folder in {"lkc_0": "frazil-dev-lake/lkc-0", "other": "frazil-dev-lake-2/lkc-0"}.items():
        glue.create_database(DatabaseInput={"Name": name, "LocationUri": f"s3://{folder}"})
        glue.create_table(DatabaseName=name, TableInput={"Name": "t"})

    found = [resource.name for resource in look(session, NAMES)]
    removed = remove_databases(glue, "frazil-dev-lake")

    assert found == ["lkc_0", "lkc_0.t"]
    assert removed == ["lkc_0"]
    assert [database["Name"] for database in glue.get_databases()["DatabaseList"]] == ["other"]


def test_a_delete_is_told_as_gone_scheduled_kept_and_left() -> None:
    role, bucket, key = Resource("IAM role", "a"), Resource("S3 bucket", "b"), Resource("KMS key", "c")
    leaving = Resource("KMS key", "c", date(2026, 12, 1))
    made_again = Resource("log group", "/aws/lambda/frazil-dev")

    told = compare(
        [role, bucket, key], [bucket, leaving, made_again], keep=lambda resource: resource.kind == "S3 bucket"
    )

    assert told == Inventory(gone=(role,), scheduled=(leaving,), kept=(bucket,), left=(made_again,))


def test_a_bucket_is_emptied_of_versions_markers_and_unfinished_uploads(session: Any) -> None:
    s3 = session.client("s3")
    make_one_of_each(session, name="frazil-dev")
    bucket = "frazil-dev-lake"
    s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    for body in (b"1", b"2"):
        s3.put_object(Bucket=bucket, Key="a", Body=body)
    s3.delete_object(Bucket=bucket, Key="a")
    s3.create_multipart_upload(Bucket=bucket, Key="big")
    portions: list[int] = []

    removed = empty_bucket(s3, bucket, portions.append)

    assert (removed, portions) == (3, [3])
    s3.delete_bucket(Bucket=bucket)
    assert empty_bucket(s3, bucket, portions.append) == 0


def test_a_secret_that_waits_for_its_deletion_gives_its_name_back(session: Any) -> None:
    vault = session.client("secretsmanager")
    for name in ("frazil/dev/manager", "frazil/dev/producer", "other/dev/manager"):
        vault.create_secret(Name=name, SecretString="{}")
    for name in ("frazil/dev/manager", "other/dev/manager"):
        vault.delete_secret(SecretId=name, RecoveryWindowInDays=30)

    released = release_names(vault, "frazil/dev/")

    assert released == ["frazil/dev/manager"]
    vault.create_secret(Name="frazil/dev/manager", SecretString="{}")
    assert vault.get_secret_value(SecretId="frazil/dev/producer")["SecretString"] == "{}"


def test_log_groups_that_came_back_are_removed(session: Any) -> None:
    make_one_of_each(session, name="frazil-dev")
    make_one_of_each(session, name="other-dev")

    removed = remove_log_groups(session.client("logs"), NAMES.log_groups)

    assert removed == ["/aws/lambda/frazil-dev-keeper"]
    assert len(session.client("logs").describe_log_groups()["logGroups"]) == 1


POLICY = """{
  "Version": "2012-10-17",
  "Statement": [{"Effect": "Allow", "Action": "glue:GetTable", "Resource": "*"}]
}"""


def test_roles_for_snowflake_without_a_state_are_removed(session: Any) -> None:
    iam = session.client("iam")
    for name in ("frazil-dev-snowflake-tables", "frazil-dev-job", "frazil-dev2-snowflake-tables"):
        iam.create_role(RoleName=name, AssumeRolePolicyDocument="{}")
        iam.put_role_policy(RoleName=name, PolicyName="may", PolicyDocument=POLICY)

    removed = remove_roles(iam, "frazil-dev-snowflake-")

    assert removed == ["frazil-dev-snowflake-tables"]
    assert {role["RoleName"] for role in iam.list_roles()["Roles"]} == {
        "frazil-dev-job",
        "frazil-dev2-snowflake-tables",
    }


def test_old_artefacts_go_but_the_last_five_and_those_in_use(session: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    s3 = session.client("s3")
    s3.create_bucket(Bucket="lake", CreateBucketConfiguration={"LocationConstraint": "eu-central-1"})
    packed = [Artefact("frazil.zip", str(number), 1) for number in range(8)]
    other = Artefact("start.py", "s", 1)
    for artefact in (*packed, other):
        s3.put_object(Bucket="lake", Key=artefact.key, Body=b"x")
    s3.put_object(Bucket="lake", Key="lkc-1/orders/data.parquet", Body=b"x")
    listed = {"Contents": [_listed(artefact, minute) for minute, artefact in enumerate((*packed, other))]}
    monkeypatch.setattr(s3, "get_paginator", lambda _: SimpleNamespace(paginate=lambda **_: [listed]))

    gone = sweep(Artefacts(other, packed[0], other, other), "lake", s3)

    left = {each["Key"] for each in s3.list_objects_v2(Bucket="lake")["Contents"]}
    assert gone == 2
    assert left == {each.key for each in (packed[0], *packed[3:], other)} | {"lkc-1/orders/data.parquet"}


def _listed(artefact: Artefact, minute: int) -> dict[str, Any]:
    return {"Key": artefact.key, "LastModified": datetime(2026, 11, 1, 0, minute, tzinfo=UTC)}
