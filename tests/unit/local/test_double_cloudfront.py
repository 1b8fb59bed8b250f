"""The double of CloudFront opens what is signed with a key that the distribution trusts, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from typing import Any
from urllib.parse import unquote, urlsplit

import boto3
import pytest
from moto import mock_aws

from frazil.local.aws_double.cloudfront import host_of, serve
from lambdas.export_csv.links import Signer
from shared.rsa_key import RsaKey

SOON = datetime.now(UTC) + timedelta(days=7)
KEY = "exports/weekly/2026-W03/a b.csv"


@dataclass(frozen=True)
class Served:
    host: str
    key_id: str
    key: RsaKey

    def link(self, *, key: RsaKey | None = None, key_id: str = "", until: datetime = SOON) -> str:
        signer = Signer(f"https://{self.host}", key_id or self.key_id, lambda: key or self.key)
        return signer.links([f"s3://lake/{KEY}"], until)[0]


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    with mock_aws():
        yield made(boto3.Session(region_name="us-east-1"), RsaKey.new(2048))


def made(session: Any, key: RsaKey) -> Served:
    session.client("s3").create_bucket(Bucket="lake")
    session.client("s3").put_object(Bucket="lake", Key=KEY, Body=b"rows")
    cloudfront = session.client("cloudfront")
    config = {"CallerReference": "1", "Name": "key", "EncodedKey": key.public_pem}
    key_id = cloudfront.create_public_key(PublicKeyConfig=config)["PublicKey"]["Id"]
    group = cloudfront.create_key_group(KeyGroupConfig={"Name": "keys", "Items": [key_id]})["KeyGroup"]["Id"]
    origin = {"Id": "lake", "DomainName": "lake.s3.us-east-1.amazonaws.com"}
    trusted = {"Enabled": True, "Quantity": 1, "Items": [group]}
    behaviour = {"TargetOriginId": "lake", "ViewerProtocolPolicy": "https-only", "TrustedKeyGroups": trusted}
    distribution = cloudfront.create_distribution(
        DistributionConfig={
            "CallerReference": "1",
            "Comment": "exports",
            "Enabled": True,
            "Origins": {"Quantity": 1, "Items": [origin]},
            "DefaultCacheBehavior": behaviour,
        }
    )
    return Served(distribution["Distribution"]["DomainName"], key_id, key)


def opened(link: str) -> tuple[HTTPStatus, bytes]:
    split = urlsplit(link)
    host = host_of({"HTTP_HOST": f"{split.netloc}:443"})
    assert host is not None
    return serve(host, unquote(split.path), split.query)


def test_a_signed_link_opens_its_object(served: Served) -> None:
    assert opened(served.link()) == (HTTPStatus.OK, b"rows")


def test_nothing_else_opens_it(served: Served) -> None:
    link = served.link()
    refused = {
        link.partition("?")[0]: b"MissingKey",
        served.link(key_id="another"): b"InvalidKey",
        served.link(key=RsaKey.new(2048)): b"InvalidSignature",
        link.replace("Expires=1", "Expires=2"): b"InvalidSignature",
        link.replace("weekly", "daily"): b"InvalidSignature",
        served.link(until=SOON - timedelta(days=8)): b"AccessDenied: the URL has expired",
    }

    assert {each: opened(each) for each in refused} == {
        each: (HTTPStatus.FORBIDDEN, why) for each, why in refused.items()
    }


def test_an_object_that_was_deleted_and_a_host_that_was_never_made_are_not_served(served: Served) -> None:
    boto3.client("s3", region_name="us-east-1").delete_object(Bucket="lake", Key=KEY)

    assert opened(served.link()) == (HTTPStatus.FORBIDDEN, b"AccessDenied")
    assert opened(served.link().replace(served.host, "other.cloudfront.net"))[0] == HTTPStatus.NOT_FOUND
    assert host_of({"HTTP_HOST": "127.0.0.1:5000"}) is None
