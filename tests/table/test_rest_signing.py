"""Requests to a REST catalog that are signed as AWS's endpoints ask for: each signature is computed again."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from frazil.adapters.iceberg.lake import IcebergLake
from frazil.local.rest_catalog.front import Answer, Front, Request
from frazil.model.columns import Column, Scalar
from frazil.model.errors import CatalogError, MissingToolError
from frazil.model.secret import Secret
from frazil.model.settings import CatalogSettings, RestSettings
from tests.fakes.served_front import NoAnswerError, served_front, tokens_for_the_client

KEY, SECRET, REGION = "AKIAEXAMPLE", "s3cret", "eu-west-1"
MISSING = Answer(404, b'{"error": {"message": "no", "type": "NoSuchTableException", "code": 404}}')
STAGED = b'{"error": {"message": "Stage create is not supported", "type": "InvalidInputException", "code": 400}}'


@dataclass(slots=True)
class Endpoint(Front):
    """An endpoint without tables, which keeps what it is asked; a POST to `silent` gets no answer."""

    asked: list[Request] = field(default_factory=list)
    silent: str = "/never"

    def answer(self, request: Request) -> Answer:
        self.asked.append(request)
        if request.path.endswith(self.silent) and request.method == "POST":
            raise NoAnswerError
        if request.path.endswith("/tables"):
            return Answer(400, STAGED)
        if request.path == "/v1/config":
            return Answer(200, b'{"defaults": {"prefix": "catalogs/1"}, "overrides": {}}')
        return Answer(200, b'{"namespace": ["a"]}') if request.method == "POST" else MISSING


@pytest.fixture
def endpoint() -> Endpoint:
    return Endpoint(tokens_for_the_client(), 0)


@pytest.fixture
def url(endpoint: Endpoint) -> Iterator[str]:
    with served_front(endpoint) as address:
        yield address


def lake_at(url: str, service: str) -> IcebergLake:
    keys = {"client.access-key-id": KEY, "client.secret-access-key": Secret(SECRET)}
    rest = RestSettings(url, {"signing_name": service, "signing_region": REGION})
    return IcebergLake(CatalogSettings("rest", "123456789012", keys, rest=rest))


def signature_of(url: str, request: Request, service: str, secret: str) -> str:
    """Return the signature that a server computes for a request (AWS Signature Version 4)."""
    headers = {name.lower(): value for name, value in request.headers.items()}
    signed = re.search(r"SignedHeaders=([^,]+)", headers["authorization"])
    assert signed is not None
    names = [name for name in signed[1].split(";") if name != "host"]
    target = url + request.target
    aws = AWSRequest(request.method, target, {name: headers[name] for name in names}, request.body)
    aws.context["timestamp"] = headers["x-amz-date"]
    signer = SigV4Auth(Credentials(KEY, secret), service, REGION)
    return str(signer.signature(signer.string_to_sign(aws, signer.canonical_request(aws)), aws))


@pytest.mark.parametrize("service", ["glue", "s3tables"])
def test_each_request_is_signed_for_the_service_and_its_region(endpoint: Endpoint, url: str, service: str) -> None:
    lake = lake_at(url, service)

    assert lake.load("a.b") is None
    lake.catalog.create_namespace("a")

    targets = [f"{request.method} {request.target}" for request in endpoint.asked]
    assert targets == [
        "GET /v1/config?warehouse=123456789012",
        "GET /v1/catalogs/1/namespaces/a/tables/b",
        "POST /v1/catalogs/1/namespaces",
    ]
    for request in endpoint.asked:
        sent = request.headers["Authorization"]
        assert f"Credential={KEY}/" in sent
        assert f"/{REGION}/{service}/aws4_request" in sent
        assert sent.endswith(f"Signature={signature_of(url, request, service, SECRET)}")
        assert not sent.endswith(f"Signature={signature_of(url, request, service, 'another')}")
        assert SECRET not in str(request.headers)


def test_a_signed_request_without_an_answer_is_not_sent_again(endpoint: Endpoint, url: str) -> None:
    endpoint.silent = "/namespaces"
    lake = lake_at(url, "glue")

    with pytest.raises(Exception, match="Remote end closed connection"):
        lake.catalog.create_namespace("a")

    assert [request.method for request in endpoint.asked] == ["GET", "POST"]


def test_an_endpoint_that_makes_no_table_in_stages_is_told_with_a_way_out(url: str) -> None:
    with pytest.raises(CatalogError, match="Stage create is not supported") as refused:
        lake_at(url, "glue").create("a.b", [Column("n", Scalar("long"))], partition_by=(), properties={}, summary={})

    assert not refused.value.worth_retrying
    assert "use `catalog.type: glue`" in refused.value.hint


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)

    with pytest.raises(MissingToolError, match="needs the package boto3"):
        lake_at("http://127.0.0.1:1", "glue").load("a.b")
