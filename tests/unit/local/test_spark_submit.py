"""What becomes of a StartJobRun request on this machine."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from frazil.local.aws_double.emr_serverless.refusals import ValidationException
from frazil.local.aws_double.emr_serverless.spark_submit import Archive, read


def request(parameters: str = "", **overrides: object) -> dict[str, object]:
    driver = {"entryPoint": "s3://b/main.py", "entryPointArguments": ["run", 1], "sparkSubmitParameters": parameters}
    return {"jobDriver": {"sparkSubmit": driver}, **overrides}


def test_sizes_and_where_it_runs_are_left_out() -> None:
    parameters = (
        "--conf spark.executor.memory=64g --conf spark.driver.cores=8 --conf spark.dynamicAllocation.enabled=true"
        " --conf spark.archives=s3://b/e.tar.gz#environment --deploy-mode cluster --executor-cores 4"
        " --conf spark.sql.session.timeZone=UTC --class Main"
    )

    command = read(request(parameters), {}).command(Path("spark-submit"))

    assert command[:3] == ["spark-submit", "--master", "local[2]"]
    assert command[-5:] == ["--class", "Main", "s3://b/main.py", "run", "1"]
    properties = {word for before, word in pairwise(command) if before == "--conf"}
    assert properties == {
        "spark.sql.session.timeZone=UTC",
        "spark.driver.memory=1g",
        "spark.ui.enabled=false",
        "spark.driver.host=127.0.0.1",
        "spark.driver.bindAddress=127.0.0.1",
    }


def test_archives_files_and_environment_are_found() -> None:
    parameters = (
        "--archives s3://b/e.tar.gz#environment,s3://b/frazil.zip --py-files s3://b/a.py,s3://b/c.py"
        " --conf spark.emr-serverless.driverEnv.PYTHONPATH=./frazil --conf spark.executorEnv.PYTHONPATH=other"
        " --conf spark.executorEnv.ONLY=there"
    )

    submission = read(request(parameters), {})

    assert submission.archives == (
        Archive("s3://b/e.tar.gz", "environment"),
        Archive("s3://b/frazil.zip", "frazil.zip"),
    )
    assert submission.files == ("s3://b/main.py", "s3://b/a.py", "s3://b/c.py")
    assert submission.environment == {"PYTHONPATH": "./frazil", "ONLY": "there"}


def test_files_of_this_machine_take_the_place_of_addresses() -> None:
    local = {"s3://b/main.py": Path("/w/main.py"), "s3://b/a.py": Path("/w/a.py")}

    submission = read(request("--py-files s3://b/a.py,local:///c.py"), {}).with_local_files(local)

    assert submission.entry_point == "/w/main.py"
    assert submission.properties["spark.submit.pyFiles"] == "/w/a.py,local:///c.py"


def test_what_is_nearer_to_the_job_wins() -> None:
    def defaults(**properties: str) -> list[dict[str, object]]:
        named = {f"spark.{name}": value for name, value in properties.items()}
        return [{"classification": "spark-defaults", "properties": named}]

    overrides = {"applicationConfiguration": defaults(b="run", c="run")}
    application = {"runtimeConfiguration": defaults(a="application", b="application", c="application")}

    submission = read(request("--conf spark.c=parameters", configurationOverrides=overrides), application)

    assert submission.properties == {"spark.a": "application", "spark.b": "run", "spark.c": "parameters"}


def test_a_job_that_is_no_spark_job_is_refused() -> None:
    with pytest.raises(ValidationException, match="sparkSubmit"):
        read({"jobDriver": {"hive": {"query": "SELECT 1"}}}, {})
