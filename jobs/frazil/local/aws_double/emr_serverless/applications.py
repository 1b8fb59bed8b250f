"""Applications and their states: created as CREATED, started by the first job run, stopped when idle."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from frazil.local.aws_double.emr_serverless.refusals import ResourceNotFoundException, ValidationException

Settings = dict[str, Any]
ENGINES = ("SPARK", "HIVE")
RESTING = ("CREATED", "STOPPED")
STOPPABLE = ("STARTING", "STARTED")
DEFAULTS: Settings = {
    "architecture": "X86_64",
    "autoStartConfiguration": {"enabled": True},
    "autoStopConfiguration": {"enabled": True, "idleTimeoutMinutes": 15},
}
NOT_SETTINGS = ("applicationId", "clientToken", "tags", "type")


@dataclass(slots=True)
class Application:
    """An application. `settings` are the parameters of CreateApplication and UpdateApplication, returned unchanged."""

    id: str
    arn: str
    engine: str
    settings: Settings
    tags: dict[str, str]
    created_at: datetime
    updated_at: datetime
    state: str = "CREATED"
    idle_since: datetime | None = None
    client_token: str | None = None

    def description(self) -> dict[str, Any]:
        """Return the application as in the response to GetApplication. ListApplications returns some of these keys."""
        return self.settings | {
            "applicationId": self.id,
            "id": self.id,
            "arn": self.arn,
            "type": self.engine.capitalize(),
            "state": self.state,
            "stateDetails": "",
            "tags": self.tags,
            "createdAt": self.created_at,
            "updatedAt": self.updated_at,
        }


@dataclass(slots=True)
class Applications:
    """The applications of one region of one account."""

    arn_prefix: str
    _known: dict[str, Application] = field(default_factory=dict)
    _changing: threading.RLock = field(default_factory=threading.RLock)

    def create(self, given: Mapping[str, Any], *, new_id: str) -> Application:
        engine = str(given["type"]).upper()
        if engine not in ENGINES:
            raise ValidationException(f"Unsupported engine {given['type']}")
        with self._changing:
            token = given.get("clientToken")
            same = next((one for one in self._known.values() if token and one.client_token == token), None)
            return same or self._add(engine, given, new_id)

    def _add(self, engine: str, given: Mapping[str, Any], new_id: str) -> Application:
        now = datetime.now(UTC)
        made = Application(
            id=new_id,
            arn=f"{self.arn_prefix}:/applications/{new_id}",
            engine=engine,
            settings=DEFAULTS | _settings(given),
            tags=dict(given.get("tags") or {}),
            created_at=now,
            updated_at=now,
            client_token=given.get("clientToken"),
        )
        self._known[new_id] = made
        return made

    def get(self, application_id: str) -> Application:
        if application_id not in self._known:
            raise ResourceNotFoundException(f"Application {application_id} does not exist")
        application = self._known[application_id]
        _stop_if_idle(application, datetime.now(UTC))
        return application

    def all(self) -> list[Application]:
        return [self.get(application_id) for application_id in list(self._known)]

    def with_arn(self, arn: str) -> Application:
        found = next((one for one in self._known.values() if one.arn == arn), None)
        if found is None:
            raise ResourceNotFoundException(f"Resource {arn} does not exist")
        return found

    def update(self, application_id: str, given: Mapping[str, Any]) -> Application:
        with self._changing:
            application = self.get(application_id)
            _refuse_unless_resting(application, "updated")
            application.settings |= _settings(given)
            application.updated_at = datetime.now(UTC)
            return application

    def delete(self, application_id: str) -> None:
        with self._changing:
            application = self.get(application_id)
            _refuse_unless_resting(application, "deleted")
            self._move(application, "TERMINATED")

    def start(self, application_id: str) -> None:
        with self._changing:
            application = self.get(application_id)
            if application.state == "TERMINATED":
                raise ValidationException(f"Application {application_id} is terminated.")
            if application.state != "STARTED":
                self._move(application, "STARTED")

    def start_for_job(self, application_id: str) -> None:
        application = self.get(application_id)
        if application.state != "STARTED" and not application.settings["autoStartConfiguration"].get("enabled"):
            raise ValidationException(f"Application {application_id} is {application.state} and does not start itself.")
        self.start(application_id)
        application.idle_since = None

    def stop(self, application_id: str, *, active_runs: int) -> None:
        with self._changing:
            application = self.get(application_id)
            if active_runs:
                raise ValidationException(
                    f"Application {application_id} cannot be stopped: {active_runs} of its job runs are not completed "
                    "or cancelled."
                )
            if application.state not in STOPPABLE:
                raise ValidationException(
                    f"Application {application_id} cannot be STOPPED. Applications must be in one of the following "
                    f"statuses: [{', '.join(STOPPABLE)}]"
                )
            self._move(application, "STOPPED")

    def _move(self, application: Application, state: str) -> None:
        application.state = state
        application.updated_at = application.idle_since = datetime.now(UTC)


def _settings(given: Mapping[str, Any]) -> Settings:
    return {name: value for name, value in given.items() if name not in NOT_SETTINGS and value is not None}


def _refuse_unless_resting(application: Application, what: str) -> None:
    if application.state not in RESTING:
        raise ValidationException(
            f"Application {application.id} cannot be {what}: it must be in one of the following statuses "
            f"{', '.join(RESTING)}. Current status: {application.state}"
        )


def _stop_if_idle(application: Application, now: datetime) -> None:
    rule = application.settings["autoStopConfiguration"]
    idle = application.idle_since
    if application.state != "STARTED" or not rule.get("enabled") or idle is None:
        return
    if now - idle > timedelta(minutes=rule.get("idleTimeoutMinutes", 15)):
        application.state, application.updated_at = "STOPPED", now
