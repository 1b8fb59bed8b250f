"""A service account of Confluent Cloud with its role bindings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from infra.cdk import Construct
from infra.resources import confluent
from infra.wanted.grants import Grant
from shared.accounts import PURPOSES
from shared.naming import Account, resource_name


@dataclass(frozen=True, slots=True)
class Scopes:
    """The resource names of an environment, of a cluster and of its registry, which prefix those of their resources."""

    environment: str
    cluster: str
    cluster_id: str
    registry: str

    def of(self, grant: Grant) -> str:
        if grant.kind == "environment":
            return self.environment
        if grant.kind == "cluster":
            return self.cluster
        if grant.kind == "subject":
            return f"{self.registry}/subject={grant.name}"
        return f"{self.cluster}/kafka={self.cluster_id}/{grant.kind}={grant.name}"


class ServiceAccount(Construct):
    """An account and its roles. No resource of its stack acts as the account, so none waits for the brokers to know it.

    The keys step and the topics step wait for that; Confluent's provider would, 90 seconds for each role.
    """

    def __init__(
        self, scope: Construct, account: Account, /, *, environment: str, grants: Sequence[Grant], scopes: Scopes
    ) -> None:
        super().__init__(scope, account)
        made = confluent.ServiceAccount(
            self, "account", display_name=resource_name(environment, account), description=PURPOSES[account]
        )
        self.id = made.id
        self.principal = f"User:{made.id}"
        for grant in grants:
            confluent.RoleBinding(
                self,
                grant.id,
                principal=self.principal,
                role_name=grant.role,
                crn_pattern=scopes.of(grant),
                disable_wait_for_ready=True,
            )
