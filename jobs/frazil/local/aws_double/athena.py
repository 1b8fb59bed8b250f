"""Athena: a named query can be deleted, and a workgroup publishes metrics by default.

moto cannot delete a named query, so `terraform destroy` would fail. moto's default for the metrics is the opposite of
AWS's, so every `terraform plan` would show a difference.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from moto.athena.models import AthenaBackend
from moto.athena.responses import AthenaResponse
from moto.core.responses import EmptyResult


def _delete_named_query(response: AthenaResponse) -> EmptyResult:
    response.athena_backend.named_queries.pop(response._get_param("NamedQueryId"), None)
    return EmptyResult()


def _publishing_metrics(create: Callable[..., object]) -> Callable[..., object]:
    def create_work_group(
        backend: Any, name: str, configuration: dict[str, Any] | None, description: str, tags: list[dict[str, str]]
    ) -> object:
        given = {"PublishCloudWatchMetricsEnabled": True} | (configuration or {})
        return create(backend, name, given, description, tags)

    return create_work_group


def teach() -> None:
    AthenaResponse.delete_named_query = _delete_named_query
    AthenaBackend.create_work_group = _publishing_metrics(AthenaBackend.create_work_group)
