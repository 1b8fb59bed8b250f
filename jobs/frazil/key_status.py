"""How old the keys are that the configuration refers to, and whether they rotate as they should."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Any

from frazil.model.errors import ServiceError
from frazil.model.moments import rfc3339
from frazil.model.secret_history import SecretHistory
from frazil.ports import SecretHistories

PENDING_PATIENCE = timedelta(hours=1)
"""A rotation takes minutes. One that has been pending for longer failed at one of its steps."""

LATE = timedelta(days=1)
"""A rotation starts any time within a day from when it is due."""


@dataclass(frozen=True, slots=True)
class KeyStatus:
    """One secret. `warnings` need action; `unknown` is the reason why its history could not be read."""

    secret: str
    age_seconds: float | None = None
    history: SecretHistory | None = None
    warnings: tuple[str, ...] = ()
    unknown: str | None = None

    @property
    def state(self) -> str:
        """The state in one or two words, for a narrow column."""
        if self.unknown is not None:
            return "unknown"
        if self.warnings:
            return "in trouble"
        return "rotates" if self.history is not None and self.history.schedule else "by hand"

    def to_json(self) -> dict[str, Any]:
        history = {} if self.history is None else asdict(self.history)
        every = history.pop("every", None)
        history["every_seconds"] = None if every is None else every.total_seconds()
        shown = {name: rfc3339(each) if isinstance(each, datetime) else each for name, each in history.items()}
        return {
            "secret": self.secret,
            "state": self.state,
            "age_seconds": self.age_seconds,
            **shown,
            "warnings": list(self.warnings),
            "unknown": self.unknown,
        }


def key_statuses(histories: SecretHistories, names: Sequence[str], *, now: datetime) -> Iterator[KeyStatus]:
    """Yield the status of each secret; if one cannot be described, the status says so and no error is raised."""
    for name in names:
        try:
            history = histories.history(name)
        except ServiceError as problem:
            yield KeyStatus(name, unknown=problem.what)
        else:
            yield _status(name, history, now)


def _status(name: str, history: SecretHistory | None, now: datetime) -> KeyStatus:
    if history is None:
        return KeyStatus(name, warnings=("the secret does not exist in this account and region",))
    age = None if history.since is None else (now - history.since).total_seconds()
    return KeyStatus(name, age, history, tuple(_warnings(history, now)))


def _warnings(history: SecretHistory, now: datetime) -> Iterator[str]:
    if history.since is None:
        yield "it has no value yet: run `scripts/deploy.sh create`, which creates the first key"
    if history.pending_since is not None and now - history.pending_since > PENDING_PATIENCE:
        at = rfc3339(history.pending_since.replace(microsecond=0))
        yield (
            f"its rotation fails: the version created at {at} never became current. The previous key still works;"
            " see the rotation function's log"
        )
    elif _is_late(history, now):
        yield f"its rotation is overdue: the schedule is {history.schedule}; check the environment's alarms"


def _is_late(history: SecretHistory, now: datetime) -> bool:
    too_old = history.since is not None and history.every is not None and now - history.since > history.every + LATE
    overdue = history.next_rotation is not None and now - history.next_rotation > LATE
    return too_old or overdue
