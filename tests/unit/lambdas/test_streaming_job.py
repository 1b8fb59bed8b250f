from __future__ import annotations

import itertools
from typing import Any

import pytest
from botocore.exceptions import ClientError

from lambdas.streaming_job.handler import (
    GRACE_SECONDS,
    STOPPABLE,
    TRIES,
    Keeper,
    Run,
    Steps,
    StillEndingError,
    Waiting,
    decide,
    definition_of,
    when_allowed,
)

WANTED = {"name": "frazil", "mode": "STREAMING", "executionRoleArn": "role", "tags": {"app": "frazil"}}


class Emr:
    """EMR Serverless as far as the function asks it; a cancelled run ends after `looks` more looks at the list."""

    def __init__(self, *, looks: int = 1) -> None:
        self.started: list[dict[str, Any]] = []
        self.ending: dict[str, int] = {}
        self.states: dict[str, str] = {}
        self.modes: dict[str, str] = {}
        self.application = "STARTED"
        self.looks = looks
        self.idles_out_after = -1

    def get_paginator(self, operation: str) -> Emr:
        assert operation == "list_job_runs"
        return self

    def paginate(self, *, applicationId: str, states: list[str]) -> list[dict[str, Any]]:  # noqa: N803
        for run in list(self.ending):
            self.ending[run] -= 1
            if self.ending[run] < 0:
                self.states[run] = "CANCELLED"
        found = [{"id": run, "state": state, "mode": self.modes[run]} for run, state in self.states.items()]
        return [{"jobRuns": [each]} for each in found if each["state"] in states]

    def get_job_run(self, *, applicationId: str, jobRunId: str) -> dict[str, Any]:  # noqa: N803
        return {"jobRun": {"tags": self.started[int(jobRunId)]["tags"]}}

    def cancel_job_run(
        self,
        *,
        applicationId: str,  # noqa: N803
        jobRunId: str,  # noqa: N803
        shutdownGracePeriodInSeconds: int,  # noqa: N803
    ) -> None:
        assert shutdownGracePeriodInSeconds == GRACE_SECONDS
        self.states[jobRunId] = "CANCELLING"
        self.ending[jobRunId] = self.looks

    def start_job_run(self, **request: Any) -> dict[str, Any]:
        run = str(len(self.started))
        self.started.append(request)
        self.states[run] = "RUNNING"
        self.modes[run] = request["mode"]
        return {"jobRunId": run}

    def stop_application(self, *, applicationId: str) -> None:  # noqa: N803
        assert "RUNNING" not in self.states.values(), "EMR Serverless refuses to stop while runs are active"
        if self.application not in STOPPABLE:
            raise ClientError({"Error": {"Code": "ValidationException", "Message": "cannot be STOPPED"}}, "Stop")
        self.application = "STOPPED"

    def get_application(self, *, applicationId: str) -> dict[str, Any]:  # noqa: N803
        state = self.application
        if self.idles_out_after == 0:
            self.application = "STOPPED"
        self.idles_out_after -= 1
        return {"application": {"state": state}}


def keeper(emr: Emr, *, seconds: float = 60) -> Keeper:
    seconds_gone = itertools.count()
    tokens = itertools.count()
    waiting = Waiting(seconds, lambda: float(next(seconds_gone)), lambda _: None)
    return Keeper(emr=emr, application="app", wait=waiting, new_token=lambda: f"token-{next(tokens)}")


@pytest.mark.parametrize(
    ("wanted", "runs", "steps"),
    [
        ("new", [], Steps((), None, start=True)),
        ("new", [Run("1", "RUNNING", "new")], Steps((), "1", start=False)),
        ("new", [Run("1", "RUNNING", "old")], Steps(("1",), None, start=True)),
        ("new", [Run("2", "RUNNING", "new"), Run("1", "PENDING", "new")], Steps(("2",), "1", start=False)),
        ("new", [Run("1", "CANCELLING", "new")], Steps((), None, start=True)),
        ("new", [Run("1", "RUNNING", "")], Steps(("1",), None, start=True)),
        (None, [Run("1", "RUNNING", "old")], Steps(("1",), None, start=False)),
        (None, [], Steps((), None, start=False)),
    ],
)
def test_one_run_of_the_wanted_definition_stays(wanted: str | None, runs: list[Run], steps: Steps) -> None:
    assert decide(wanted, runs) == steps


def test_the_same_wish_twice_starts_one_run() -> None:
    emr = Emr()

    first = keeper(emr).keep(WANTED)
    second = keeper(emr).keep(WANTED)

    assert first == {"job_run_id": "0", "started": True, "cancelled": []}
    assert second == {"job_run_id": "0", "started": False, "cancelled": []}


def test_a_new_definition_starts_after_the_old_run_has_ended() -> None:
    emr = Emr(looks=3)
    keeper(emr).keep(WANTED)

    answer = keeper(emr).keep({**WANTED, "executionRoleArn": "another"})

    assert answer == {"job_run_id": "1", "started": True, "cancelled": ["0"]}
    assert emr.states == {"0": "CANCELLED", "1": "RUNNING"}


def test_a_run_that_was_given_up_is_started_again_under_another_token() -> None:
    emr = Emr()
    keeping = keeper(emr)
    keeping.keep(WANTED)
    emr.states["0"] = "FAILED"

    answer = keeping.keep(WANTED)

    assert answer["job_run_id"] == "1"
    assert [request["clientToken"] for request in emr.started] == ["token-0", "token-1"]


def test_no_run_is_started_while_another_is_still_ending() -> None:
    emr = Emr(looks=1000)
    keeper(emr).keep(WANTED)

    with pytest.raises(StillEndingError, match="rerun the command"):
        keeper(emr, seconds=5).keep({**WANTED, "executionRoleArn": "another"})

    assert len(emr.started) == 1


def test_scheduled_batches_are_left_alone() -> None:
    emr = Emr()
    emr.start_job_run(mode="BATCH", tags={})

    keeper(emr).keep(None)

    assert emr.states == {"0": "RUNNING"}


def test_leaving_cancels_every_run_and_stops_the_application() -> None:
    emr = Emr()
    keeper(emr).keep(WANTED)
    emr.start_job_run(mode="BATCH", tags={})

    answer = keeper(emr).leave()

    assert answer["cancelled"] == ["0", "1"]
    assert (emr.states, emr.application) == ({"0": "CANCELLED", "1": "CANCELLED"}, "STOPPED")


@pytest.mark.parametrize(
    ("state", "idles_out_after"),
    [("STOPPED", -1), ("CREATED", -1), ("TERMINATED", -1), ("STOPPING", 1), ("STARTED", 0)],
)
def test_leaving_an_application_that_is_not_started_is_no_failure(state: str, idles_out_after: int) -> None:
    emr = Emr()
    emr.application, emr.idles_out_after = state, idles_out_after

    assert keeper(emr).leave() == {"job_run_id": None, "started": False, "cancelled": []}
    assert emr.application in ("STOPPED", "CREATED", "TERMINATED")


class Gone(Emr):
    """An application that was deleted by hand."""

    def paginate(self, **_: object) -> list[dict[str, Any]]:
        raise gone("ListJobRuns")

    def get_application(self, **_: object) -> dict[str, Any]:
        raise gone("GetApplication")


class WithoutStop(Emr):
    """An application that exists, in an API that says otherwise of a stop."""

    def stop_application(self, **_: object) -> None:
        raise gone("StopApplication")


def gone(operation: str) -> ClientError:
    return ClientError({"Error": {"Code": "ResourceNotFoundException", "Message": "Application app"}}, operation)


def test_leaving_an_application_that_was_deleted_by_hand_is_no_failure() -> None:
    assert keeper(Gone()).leave() == {"job_run_id": None, "started": False, "cancelled": []}


class Terminated(Emr):
    """A deleted application that EMR Serverless still knows, and works with no more."""

    def paginate(self, **_: object) -> list[dict[str, Any]]:
        raise refused("ListJobRuns")


class EndsMeanwhile(Emr):
    """A run that ends between the list and the request to cancel it."""

    def cancel_job_run(self, *, jobRunId: str, **_: object) -> None:  # noqa: N803
        self.states[jobRunId] = "SUCCESS"
        raise refused("CancelJobRun")


class StaysOn(Emr):
    """A run that cannot be cancelled, whatever the reason."""

    def cancel_job_run(self, **_: object) -> None:
        raise refused("CancelJobRun")


def refused(operation: str) -> ClientError:
    return ClientError({"Error": {"Code": "ValidationException", "Message": "state does not allow it"}}, operation)


def test_leaving_an_application_that_is_terminated_is_no_failure() -> None:
    emr = Terminated()
    emr.application = "TERMINATED"

    assert keeper(emr).leave() == {"job_run_id": None, "started": False, "cancelled": []}


def test_leaving_fails_where_the_request_itself_is_refused() -> None:
    with pytest.raises(ClientError, match="ValidationException"):
        keeper(Terminated()).leave()


@pytest.mark.parametrize("leaves", [True, False])
def test_a_run_that_ends_before_it_is_cancelled_is_no_failure(leaves: bool) -> None:
    emr = EndsMeanwhile()
    keeping = keeper(emr)
    keeping.keep(WANTED)

    answer = keeping.leave() if leaves else keeping.keep({**WANTED, "executionRoleArn": "another"})

    assert answer["job_run_id"] == (None if leaves else "1")


def test_a_run_that_cannot_be_cancelled_is_a_failure() -> None:
    keeping = keeper(StaysOn())
    keeping.keep(WANTED)

    with pytest.raises(ClientError, match="CancelJobRun"):
        keeping.leave()


def test_keeping_a_run_of_an_application_that_was_deleted_by_hand_fails() -> None:
    with pytest.raises(ClientError, match="ResourceNotFoundException"):
        keeper(Gone()).keep(WANTED)


def test_leaving_fails_where_something_else_is_missing() -> None:
    with pytest.raises(ClientError, match="ResourceNotFoundException"):
        keeper(WithoutStop()).leave()


def test_the_definition_is_the_same_however_the_request_is_ordered() -> None:
    assert definition_of({"a": 1, "b": 2}) == definition_of({"b": 2, "a": 1})
    assert definition_of(WANTED) != definition_of({**WANTED, "name": "other"})


def test_a_role_that_is_not_known_everywhere_yet_is_waited_for() -> None:
    slept: list[float] = []
    answers = iter([denied(), denied(), {"job_run_id": "1"}])

    assert when_allowed(lambda: given(next(answers)), Waiting(60, lambda: 0.0, slept.append)) == {"job_run_id": "1"}
    assert len(slept) == 2


@pytest.mark.parametrize(("now", "calls"), [(0.0, TRIES + 1), (60.0, 1)])
def test_access_that_stays_denied_is_a_failure_in_the_end(now: float, calls: int) -> None:
    made: list[int] = []

    def act() -> dict[str, Any]:
        made.append(1)
        raise denied()

    with pytest.raises(ClientError):
        when_allowed(act, Waiting(60, lambda: now, lambda _: None))

    assert len(made) == calls


def denied() -> ClientError:
    return ClientError({"Error": {"Code": "AccessDeniedException", "Message": "not yet"}}, "ListJobRuns")


def given(answer: dict[str, Any] | ClientError) -> dict[str, Any]:
    if isinstance(answer, ClientError):
        raise answer
    return answer
