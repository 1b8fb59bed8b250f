"""Commits to Iceberg's own REST server: what its answers mean, and what happens to secrets and tokens."""

from __future__ import annotations

import json
import logging
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.exceptions import OAuthError

from frazil.adapters.iceberg.lake import IcebergLake
from frazil.local.rest import CLIENT_ID, CLIENT_SECRET
from frazil.local.rest_catalog.front import Answer
from frazil.materialize.layout import TABLE_PROPERTIES
from frazil.model.columns import Column, Scalar
from frazil.model.errors import CatalogError, CommitRejectedError, CommitUnknownError
from frazil.model.expiry import Expiry
from frazil.model.secret import Secret
from frazil.model.snapshot import TableView
from tests.fakes.served_front import Fate, Meddling, port_behind, served_front, tokens_for_the_client
from tests.faults.rest import rest_catalog


def refusal(status: int, kind: str) -> Answer:
    return Answer(status, json.dumps({"error": {"message": "no", "type": kind, "code": status}}).encode())


UNKNOWN = {
    "no answer": None,
    "500": refusal(500, "CommitStateUnknownException"),
    "502": refusal(502, "BadGateway"),
    "503": refusal(503, "ServiceUnavailableException"),
    "504": Answer(504, b"<html>timed out</html>", "text/html"),
    "200 without metadata": Answer(200, b"{}"),
    "302": Answer(302, b""),
}


@pytest.fixture
def front(rest_catalog_url: str) -> Meddling:
    del rest_catalog_url
    return Meddling(tokens_for_the_client(), port_behind())


@pytest.fixture
def url(front: Meddling) -> Iterator[str]:
    with served_front(front) as address:
        yield address


@pytest.fixture
def name() -> str:
    return f"rest_{uuid.uuid4().hex[:12]}.t"


@pytest.fixture
def lake(url: str, name: str) -> IcebergLake:
    made = IcebergLake(rest_catalog(url))
    made.create(name, [Column("n", Scalar("long"))], partition_by=(), properties=TABLE_PROPERTIES, summary={})
    return made


def view_of(lake: IcebergLake, name: str) -> TableView:
    view = lake.load(name)
    assert view is not None
    return view


def stage(lake: IcebergLake, view: TableView, branch: str = "b") -> int:
    return lake.stage(view, base=view.head or 0, branch=branch, files=(), summary={}, document=b"state")


def test_a_batch_is_staged_and_published(lake: IcebergLake, name: str) -> None:
    staged = stage(lake, view_of(lake, name))
    lake.publish(view_of(lake, name), branch="b", tag="checkpoint", drop=["b"])

    view = view_of(lake, name)
    assert (view.head, view.branches, view.tags) == (staged, {"main": staged}, {"checkpoint": staged})
    assert view.snapshots[staged].read_document() == b"state"
    assert view.properties.items() >= TABLE_PROPERTIES.items()


@pytest.mark.parametrize("lands", [True, False])
@pytest.mark.parametrize("answer", UNKNOWN)
def test_an_answer_that_leaves_it_open_is_an_unknown_outcome_and_nothing_is_sent_twice(
    lake: IcebergLake, front: Meddling, name: str, answer: str, lands: bool
) -> None:
    view, before = view_of(lake, name), front.commits
    front.fate = Fate(lands, UNKNOWN[answer])

    with pytest.raises(CommitUnknownError):
        stage(lake, view)

    assert front.commits == before + 1
    assert ("b" in view_of(lake, name).branches) == lands


@pytest.mark.parametrize(
    ("answer", "error", "retry"),
    [
        (refusal(400, "ValidationException"), CommitRejectedError, True),
        (refusal(409, "CommitFailedException"), CommitRejectedError, True),
        (refusal(403, "ForbiddenException"), CatalogError, False),
        (refusal(429, "TooManyRequestsException"), CatalogError, True),
    ],
)
def test_a_refusal_is_no_unknown_outcome(
    lake: IcebergLake, front: Meddling, name: str, answer: Answer, error: type[Exception], retry: bool
) -> None:
    view, before = view_of(lake, name), front.commits
    front.fate = Fate(lands=False, answer=answer)

    with pytest.raises(error) as refused:
        stage(lake, view)

    assert front.commits == before + 1
    assert type(refused.value) is error
    assert getattr(refused.value, "worth_retrying", None) is retry


def test_a_commit_on_what_another_has_changed_is_rejected(lake: IcebergLake, name: str) -> None:
    stage(lake, view_of(lake, name))
    stale = view_of(lake, name)
    lake.publish(stale, branch="b", tag="checkpoint", drop=["b"])

    with pytest.raises(CommitRejectedError):
        lake.publish(stale, branch="b", tag="checkpoint", drop=["b"])
    with pytest.raises(CommitRejectedError):
        lake.set_property_at(stale, "a", "b")

    assert set(view_of(lake, name).branches) == {"main"}


def test_a_snapshot_whose_sequence_number_is_taken_is_rejected(lake: IcebergLake, name: str) -> None:
    view = view_of(lake, name)
    stage(lake, view)

    with pytest.raises(CommitRejectedError, match="sequence number"):
        stage(lake, view, branch="other")

    assert set(view_of(lake, name).branches) == {"main", "b"}


def test_a_table_is_made_once(lake: IcebergLake, name: str) -> None:
    with pytest.raises(CommitRejectedError, match="another process created"):
        lake.create(name, [Column("n", Scalar("long"))], partition_by=(), properties={}, summary={})


def test_snapshots_expire_unless_a_tag_or_a_branch_has_moved(lake: IcebergLake, name: str) -> None:
    first = view_of(lake, name).head
    stage(lake, view_of(lake, name))
    lake.publish(view_of(lake, name), branch="b", tag="checkpoint", drop=["b"])
    view = view_of(lake, name)
    assert first is not None
    expiry = Expiry(snapshots=(first,), put={}, drop=())

    lake.move_tags(view, put={"pin": first})
    with pytest.raises(CommitRejectedError, match="a branch or tag has changed"):
        lake.expire(view, expiry)
    lake.move_tags(view_of(lake, name), put={}, drop=["pin"])
    lake.expire(view_of(lake, name), expiry)

    assert set(view_of(lake, name).snapshots) == {view.head}


def test_metadata_is_parsed_once_for_each_version(lake: IcebergLake, url: str, name: str) -> None:
    first = view_of(lake, name).current.metadata
    assert view_of(lake, name).current.metadata is first

    stage(IcebergLake(rest_catalog(url)), view_of(lake, name))

    assert set(view_of(lake, name).branches) == {"main", "b"}


def test_many_threads_keep_their_connections(lake: IcebergLake, name: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING), ThreadPoolExecutor(16) as pool:
        views = list(pool.map(lambda _: lake.load(name), range(64)))

    assert None not in views
    assert caplog.messages == []


def test_a_token_that_expires_between_two_requests_is_renewed(lake: IcebergLake, front: Meddling, name: str) -> None:
    """The server's clock is ahead, so the client learns it from a refusal."""
    before = front.tokens_asked
    front.tokens = replace(front.tokens, client_secret=CLIENT_SECRET, clock=lambda: 4_000_000_000.0)

    stage(lake, view_of(lake, name))

    assert front.tokens_asked == before + 1
    assert "b" in view_of(lake, name).branches


def test_a_given_token_that_has_expired_is_an_error_that_names_the_settings(front: Meddling, url: str) -> None:
    lake = IcebergLake(rest_catalog(url, token=Secret("0-expired")))

    with pytest.raises(CatalogError, match="NotAuthorizedException: The bearer token is unknown or expired") as refused:
        lake.load("a.b")

    assert "token" in refused.value.hint
    assert "0-expired" not in str(refused.value)
    assert front.tokens_asked == 0


def test_a_wrong_secret_is_refused(front: Meddling, url: str) -> None:
    ours = IcebergLake(rest_catalog(url, client_id=Secret(CLIENT_ID), client_secret=Secret("gu3ss"), scope="catalog"))

    with pytest.raises(CatalogError, match="invalid_client"):
        ours.load("a.b")
    with pytest.raises(OAuthError, match="invalid_client"), pytest.warns(DeprecationWarning):
        RestCatalog("theirs", uri=url, credential=f"{CLIENT_ID}:gu3ss")

    assert {request.path for request in front.asked} == {"/v1/oauth/tokens"}


def test_no_secret_is_where_files_are_read_and_written(lake: IcebergLake, name: str) -> None:
    table = lake.catalog.load_table(name)

    kept = [lake.catalog.properties, table.io.properties, table.config, dict(lake.storage)]
    assert CLIENT_SECRET not in repr(kept)
    assert dict(lake.storage) == {}


def test_no_request_asks_for_access_to_the_storage(lake: IcebergLake, front: Meddling, name: str) -> None:
    """Tasks write with the settings' own access: another one for the driver would hide that it is missing."""
    view_of(lake, name)

    names = {header.lower() for request in front.asked for header in request.headers}
    assert "x-client-version" in names
    assert "x-iceberg-access-delegation" not in names
