"""PyIceberg's REST catalog, with one attempt for each commit, time limits, and tokens that are renewed in time.

The server applies the updates and writes the metadata. What its answers to a commit mean follows the REST specification
and Iceberg's Java client: 409 is a refusal; 500, 502, 503, 504, and no answer are unknown outcomes. Any other status
from 400 on says that the server did not carry the commit out.
"""

from __future__ import annotations

import importlib.util
import json
from typing import Any

import requests
from pyiceberg.catalog.rest import Endpoints, RestCatalog, TableResponse
from pyiceberg.catalog.rest.auth import AuthManagerAdapter
from pyiceberg.catalog.rest.response import _handle_non_200_response
from pyiceberg.exceptions import (
    AuthorizationExpiredError,
    BadRequestError,
    CommitFailedException,
    ForbiddenError,
    NoSuchTableError,
    TooManyRequestsError,
    UnauthorizedError,
)
from pyiceberg.table import CommitTableResponse, Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.update import AssertRefSnapshotId, TableRequirement, TableUpdate
from pyiceberg.typedef import Identifier
from requests.adapters import HTTPAdapter

from frazil.adapters.iceberg.commits import SNAPSHOTS_KEPT
from frazil.adapters.iceberg.expiry import AssertSameSnapshots
from frazil.adapters.iceberg.recent import Recent
from frazil.adapters.iceberg.refusals import hint_for, is_lasting
from frazil.adapters.iceberg.rest_access import TIMEOUT, Access, access_of
from frazil.model.errors import CatalogError, MissingToolError
from frazil.model.settings import CatalogSettings

ACCESS = "frazil.access"
"""The property with the catalog's `Access`. It is an object, and taken out before anything keeps the properties."""
CONNECTIONS = 64
"""How many are kept open: as many as tables can have a batch at once."""
DELEGATION_HEADER = "X-Iceberg-Access-Delegation"
NOT_CARRIED_OUT = (UnauthorizedError, AuthorizationExpiredError, ForbiddenError, TooManyRequestsError)
"""Answers to a commit that no other writer causes, and after which nothing has changed."""


def rest_properties(settings: CatalogSettings) -> dict[str, Any]:
    """Return PyIceberg's settings. Secrets are in the `Access` only."""
    rest = settings.rest
    assert rest is not None  # noqa: S101 - narrows the type: `specs` gives every rest catalog its settings
    found: dict[str, Any] = {"uri": rest.uri, ACCESS: access_of(rest)}
    if settings.warehouse:
        found["warehouse"] = settings.warehouse
    signing_name = rest.properties.get("signing_name")
    if signing_name is not None:
        _require_boto3()
        found |= {
            "rest.sigv4-enabled": "true",
            "rest.sigv4.max-retries": "0",
            "rest.signing-name": signing_name,
            "rest.signing-region": rest.properties["signing_region"],
        }
    return found


def _require_boto3() -> None:
    """Raise MissingToolError if requests cannot be signed; PyIceberg would only say that it has no such catalog."""
    if importlib.util.find_spec("boto3") is None:
        raise MissingToolError(
            "catalog.signing_name needs the package boto3, which is not installed",
            hint="run `pip install 'frazil[glue]'`, then try again",
        )


class OneAttemptRestCatalog(RestCatalog):
    def __init__(self, name: str, **properties: Any) -> None:
        self._access: Access = properties.pop(ACCESS)
        self._known: Recent[TableMetadata] = Recent(SNAPSHOTS_KEPT)
        super().__init__(name, **properties)

    def load_table(self, identifier: str | Identifier) -> Table:
        """Return the table. Metadata that this process knows by its location is not parsed again: it never changes."""
        try:
            return self._loaded(identifier)
        except (UnauthorizedError, AuthorizationExpiredError):
            self._refresh_token()
            return self._loaded(identifier)

    def _loaded(self, identifier: str | Identifier) -> Table:
        path = self._split_identifier_for_path(identifier)
        answer = self._session.get(self.url(Endpoints.load_table, **path))
        try:
            answer.raise_for_status()
        except requests.HTTPError as refused:
            _handle_non_200_response(refused, {404: NoSuchTableError})
        found = self._parsed(answer.text)
        return self._response_to_table(self.identifier_to_tuple(identifier), found)

    def _parsed(self, text: str) -> TableResponse:
        told = json.loads(text)
        location = told.get("metadata-location")
        known = self._known.get(location) if location else None
        if known is not None:
            return TableResponse.model_validate({**told, "metadata": known})
        found = TableResponse.model_validate_json(text)
        self._remember(found.metadata_location, found.metadata)
        return found

    def _remember(self, location: str | None, metadata: TableMetadata) -> None:
        if location:
            self._known.put(location, metadata, weight=len(metadata.snapshots))

    def commit_table(
        self, table: Table, requirements: tuple[TableRequirement, ...], updates: tuple[TableUpdate, ...]
    ) -> CommitTableResponse:
        """Commit once. Raises CommitFailedException if the table has changed, CatalogError if the server refuses the
        client: nothing has landed then.

        A server answers 400 if an update does not fit what the table has become, such as a snapshot whose sequence
        number another commit has taken.
        """
        known = self._known_to_servers(table, requirements)
        try:
            committed: CommitTableResponse = super().commit_table(table, known, updates)
        except BadRequestError as outdated:
            raise CommitFailedException(str(outdated)) from outdated
        except NOT_CARRIED_OUT as refused:
            error = CatalogError(
                f"{self.uri} refused a commit to {'.'.join(table.name())}: {refused}", hint=hint_for(refused)
            )
            error.worth_retrying = not is_lasting(refused)
            raise error from refused
        self._known.drop(table.metadata_location)
        self._remember(committed.metadata_location, committed.metadata)
        return committed

    def _known_to_servers(
        self, table: Table, requirements: tuple[TableRequirement, ...]
    ) -> tuple[TableRequirement, ...]:
        """Return requirements that the REST specification has.

        It has none for "no new branch or tag", so this looks at the table again right before the commit.
        """
        found: list[TableRequirement] = []
        given: tuple[Any, ...] = requirements
        for requirement in given:
            if isinstance(requirement, AssertSameSnapshots):
                requirement.validate(self.load_table(table.name()).metadata)
                refs = requirement.refs.items()
                found += [AssertRefSnapshotId(ref=name, snapshot_id=snapshot_id) for name, snapshot_id in refs]
            else:
                found.append(requirement)
        return tuple(found)

    def _create_session(self) -> requests.Session:
        session = OneAttemptSession()
        self._config_headers(session)
        # tasks write with the settings' own access to the storage, so the driver does not ask for another one
        session.headers.pop(DELEGATION_HEADER, None)
        session.auth = AuthManagerAdapter(self._access)  # type: ignore[arg-type]  # its base class has no state
        if str(self.properties.get("rest.sigv4-enabled", "")).lower() == "true":
            self._init_sigv4(session)
        return session

    def _refresh_token(self) -> None:
        self._access.renew()

    @staticmethod
    def _delete_old_metadata(*_: object) -> None:
        """Leave old metadata files to the server, which wrote them."""


class OneAttemptSession(requests.Session):
    """Sends each request once, within time limits. Only reads follow redirects: a POST would be sent again, or lost."""

    def __init__(self) -> None:
        super().__init__()
        for scheme in ("http://", "https://"):
            self.mount(scheme, HTTPAdapter(pool_maxsize=CONNECTIONS))

    def request(self, method: str, url: str | bytes, *args: Any, **named: Any) -> requests.Response:
        named.setdefault("timeout", TIMEOUT)
        named["allow_redirects"] = method in ("GET", "HEAD")
        answer = super().request(method, url, *args, **named)
        if answer.is_redirect:
            raise requests.TooManyRedirects(
                f"{method} {url!s} was redirected to {answer.headers.get('location')}: correct catalog.uri",
                response=answer,
            )
        return answer
