"""Asking from inside an application: which run is imitated, what is asked for, what is said when nothing returns."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

import boto3
import pytest
from botocore.validate import validate_parameters

from frazil.adapters.aws.job_runs import JobRun, Monitoring
from frazil.doctor.finding import Finding, Report
from frazil.doctor.inside import Polling, report_from_inside, request_like, run_to_imitate
from frazil.model.errors import Misuse, ServiceError

OVERRIDES = {
    "monitoringConfiguration": {"cloudWatchLoggingConfiguration": {"enabled": True, "logGroupName": "/frazil/dev"}}
}
RUN = JobRun(
    application="00app",
    id="00run",
    name="frazil-dev-streaming",
    state="RUNNING",
    details="",
    role="arn:aws:iam::123456789012:role/job",
    entry_point="s3://lake/start.py",
    arguments=("--config", "s3://lake/frazil.yaml", "--tables", "s3://lake/tables.zip", "materialize", "trades"),
    parameters="--conf spark.archives=s3://lake/environment.tar.gz#environment",
    overrides=OVERRIDES,
    tags={"application": "frazil", "frazil-definition": "abc", "aws:created": "x"},
    monitoring=Monitoring("/frazil/dev", ""),
)
REPORT = Report("this machine", (Finding("broker", "metadata", "ok", "1 broker"),))


@dataclass
class Emr:
    """An application whose next run goes through `states`, and prints `outputs` one after the other."""

    runs: list[JobRun]
    states: list[str]
    outputs: list[str]
    application: str = "00app"
    started: list[Mapping[str, object]] = field(default_factory=list)
    cancelled: list[str] = field(default_factory=list)

    def newest(self) -> Iterator[JobRun]:
        return iter(self.runs)

    def start(self, request: Mapping[str, object]) -> str:
        self.started.append(request)
        return "00new"

    def get(self, job_run: str) -> JobRun:
        state = self.states.pop(0) if len(self.states) > 1 else self.states[0]
        return replace(RUN, id=job_run, state=state, details="said why")

    def cancel(self, job_run: str) -> None:
        self.cancelled.append(job_run)

    def driver_output(self, run: JobRun) -> str:
        return self.outputs.pop(0) if len(self.outputs) > 1 else self.outputs[0]


def polling() -> Polling:
    """Time passes only by polling."""
    now = [0.0]

    def sleep(seconds: float) -> None:
        now[0] += seconds

    return Polling(clock=lambda: now[0], sleep=sleep, say=lambda _: None)


def asked(emr: Emr) -> Report:
    return report_from_inside(emr, polling(), token="t")  # type: ignore[arg-type]


def test_the_same_program_settings_and_role_with_another_command() -> None:
    request = request_like(RUN, token="t")

    assert request == {
        "clientToken": "t",
        "name": "frazil-dev-streaming-doctor",
        "mode": "BATCH",
        "executionRoleArn": RUN.role,
        "executionTimeoutMinutes": 10,
        "jobDriver": {
            "sparkSubmit": {
                "entryPoint": "s3://lake/start.py",
                "entryPointArguments": [*RUN.arguments[:4], "doctor", "--json"],
                "sparkSubmitParameters": RUN.parameters,
            }
        },
        "configurationOverrides": OVERRIDES,
        "tags": {"application": "frazil"},
    }
    nobody = {"region_name": "us-east-1", "aws_access_key_id": "a", "aws_secret_access_key": "b"}
    model = boto3.client("emr-serverless", **nobody).meta.service_model.operation_model("StartJobRun")
    validate_parameters({"applicationId": "00app", **request}, model.input_shape)


def test_a_run_with_transformations_is_imitated_with_them() -> None:
    *options, _, _ = RUN.arguments
    arguments = (*options, "--transforms", "s3://lake/transforms.zip", "materialize", "trades")

    request = request_like(replace(RUN, arguments=arguments), token="t")

    submit = request["jobDriver"]["sparkSubmit"]  # type: ignore[index]
    assert submit["entryPointArguments"] == [*arguments[:6], "doctor", "--json"]


def test_a_run_of_the_doctor_itself_can_be_imitated() -> None:
    again = request_like(replace(RUN, name="frazil-dev-streaming-doctor"), token="t")

    assert again["name"] == "frazil-dev-streaming-doctor"


def test_runs_of_others_are_passed_over() -> None:
    other = replace(RUN, id="other", arguments=("report",))

    assert run_to_imitate([other, RUN], "00app") == RUN


def test_without_a_run_or_without_its_log_there_is_nothing_to_go_by() -> None:
    with pytest.raises(Misuse, match="has no Frazil job run"):
        run_to_imitate([], "00app")
    with pytest.raises(Misuse, match="does not log to CloudWatch"):
        run_to_imitate([replace(RUN, monitoring=None)], "00app")


def test_the_report_says_where_it_was_made() -> None:
    emr = Emr([RUN], ["PENDING", "RUNNING", "FAILED"], ["", "half", json.dumps(REPORT.to_json(), indent=2)])

    assert asked(emr) == replace(REPORT, place="application 00app, job run 00new")
    assert emr.cancelled == []


def test_a_run_that_does_not_end_is_cancelled() -> None:
    emr = Emr([RUN], ["SCHEDULED"], [""])

    with pytest.raises(ServiceError, match="was still SCHEDULED after 10 min"):
        asked(emr)

    assert emr.cancelled == ["00new"]


@pytest.mark.parametrize(
    ("output", "said"), [("", "none of its output has arrived"), ("No such command", "its output contains no report")]
)
def test_a_run_without_a_report_says_how_it_ended(output: str, said: str) -> None:
    with pytest.raises(ServiceError, match="ended as FAILED: said why") as raised:
        asked(Emr([RUN], ["FAILED"], [output]))

    assert said in raised.value.what
