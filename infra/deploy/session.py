"""One run of `python -m infra.deploy`: its deployment, its local services and what it has synthesized."""

from __future__ import annotations

import argparse
import os
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field

from infra.deploy import deployment as deployments
from infra.deploy.accounts.recall import compare_accounts, recall
from infra.deploy.accounts.snowflake_account import AccountFlags
from infra.deploy.asked import Asked
from infra.deploy.cloud import Cloud, Services
from infra.deploy.clouds import cloud_of
from infra.deploy.console import tell
from infra.deploy.deployment import Deployment, credentials, open_deployment
from infra.deploy.prompts import ask_for_secrets
from infra.deploy.stacks.synthesis import Synthesis
from infra.deploy.steps import STEPS
from infra.deploy.verbs import Call
from infra.settings.file import refuse_unknown
from infra.terraform.run_lock import alone

DESTROYING = frozenset({"delete", "destroy"})
BESIDE_OTHERS = frozenset({"check", "policy"})
"""Steps that change no file of the environment, so that they may run while a verb works on it."""


@dataclass(slots=True)
class Session:
    """`given` is the parsed command line. `doing` is the step at work, for error messages."""

    given: argparse.Namespace
    doing: str = ""
    _synthesis: Synthesis = field(init=False)
    _services: Services | None = None
    _began: bool = False

    def __post_init__(self) -> None:
        self._synthesis = Synthesis(tell, "destroy" if self.given.step in DESTROYING else "apply")

    def alone(self) -> AbstractContextManager[None]:
        """Keep other runs out of the environment.

        Raises ServiceError if one is at work, SettingError if there is no such environment.
        """
        given = self.given
        refuse_unknown(given.environment)  # before a path contains the name
        if given.step in BESIDE_OTHERS:
            return nullcontext()
        return alone(given.environment, deployments.folder_of(given.environment))

    def open(self, snowflake: AccountFlags) -> Deployment:
        """Open the deployment and set the credentials of its account for this process and its children.

        This is done anew for each step, because a step may start services on other ports or record an account.
        """
        return self._opened(snowflake, self._find_services())

    def _opened(self, snowflake: AccountFlags, services: Services) -> Deployment:
        given = self.given
        os.environ.update(services.variables)
        deployment = open_deployment(
            given.environment,
            given.profile,
            asks=not given.yes,
            days=given.day_count,
            keys_to_retain=given.number_of_api_keys_to_retain,
            snowflake=snowflake,
        )
        for name, value in credentials(deployment, services.aws_endpoint_url, os.environ).items():
            os.environ.pop(name, None)
            os.environ.update({} if value is None else {name: value})
        return deployment

    def ask_for_secrets(self) -> None:
        """Ask for what is missing."""
        if not self._cloud.needs_credentials:
            return
        self.doing = "recall"
        ask_for_secrets(self.open, self._flags, self._recall)

    def run(self, call: Call) -> None:
        """Run one step."""
        self.doing = call.step
        services = self._find_services()
        asked = self._asked(call, services)
        compare_accounts(self._opened(self._flags, services), call.step, asked)
        STEPS[call.step](self._opened(self._flags, services), asked)  # again, with the accounts that it has recalled

    def _asked(self, call: Call, services: Services) -> Asked:
        given = self.given
        is_first, self._began = not self._began, True
        return Asked(call.stacks, given.keep_data, given.secret, given.leaked, services, self._synthesis, is_first)

    @property
    def _flags(self) -> AccountFlags:
        given = self.given
        return AccountFlags(given.snowflake_warehouse, given.snowflake_organization, given.snowflake_account)

    @property
    def _cloud(self) -> Cloud:
        return cloud_of(self.given.profile)

    def _recall(self, deployment: Deployment) -> None:
        recall(deployment, self._asked(Call("recall"), self._find_services()))

    def _find_services(self) -> Services:
        """Return the services, asked for again until all are up: they may start on other ports."""
        os.environ.pop("FRAZIL_CONFIG", None)  # the shell may have it from another environment
        if self._services is None or not self._services.are_up:
            self._services = self._cloud.find_services(deployments.folder_of(self.given.environment))
        return self._services
