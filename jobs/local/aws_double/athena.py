"""Athena: a named query can be deleted; moto cannot, so `terraform destroy` would end with its error."""

from __future__ import annotations

from moto.athena.responses import AthenaResponse
from moto.core.responses import EmptyResult


def _delete_named_query(response: AthenaResponse) -> EmptyResult:
    response.athena_backend.named_queries.pop(response._get_param("NamedQueryId"), None)
    return EmptyResult()


def teach() -> None:
    AthenaResponse.delete_named_query = _delete_named_query
