"""`frazil connect`: each engine that runs here reads a table by the text that it was given."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import duckdb
import pyspark
import pytest
from breadth import Place, encode, record_of

from frazil.cli import app
from frazil.local.jars import class_path
from frazil.local.java import find_java
from frazil.query import extension_file
from tests.sampling import in_long_runs

ORDER = record_of(("id", "long"), ("what", "string"))
ROWS = [{"id": 1, "what": "tea"}, {"id": 2, "what": "milk"}]


def filled(place: Place) -> str:
    """A table with two rows, whose name is a word of SQL."""
    topic = place.topic()
    schema_id = place.register(f"{topic}-value", ORDER)
    place.send(topic, *encode(ORDER, schema_id, *ROWS))
    place.materialize(f"topic: {topic}\ntable: order")
    return "order"


def pasted(place: Place, engine: str, table: str, capsys: pytest.CaptureFixture[str]) -> str:
    capsys.readouterr()
    assert app.run(["connect", engine, table, "--config", str(place.folder / "frazil.yaml")]) == 0
    return capsys.readouterr().out


def test_duckdb_and_pyiceberg_read_by_what_is_printed(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    table = filled(place)
    text = pasted(place, "duckdb", table, capsys)
    here = re.sub(r"INSTALL \w+;", "", text).replace("LOAD iceberg;", _extensions())
    with duckdb.connect(config={"allow_unsigned_extensions": "true"}) as connection:
        found = connection.execute(here).to_arrow_table()

    assert found.select(["id", "what"]).sort_by("id").to_pylist() == ROWS
    script = pasted(place, "pyiceberg", table, capsys).replace(".to_arrow()", ".to_arrow().num_rows")
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert ran.stdout == "2\n"


def _extensions() -> str:
    return " ".join(f"LOAD '{extension_file(name)}';" for name in ("avro", "iceberg"))


@in_long_runs
def test_spark_reads_by_what_is_printed(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    text = pasted(place, "spark", filled(place), capsys)
    here = re.sub(r"--packages \S+", f"--driver-class-path {class_path('iceberg')}", text)
    home = Path(pyspark.__file__).parent
    environment = {
        **os.environ,
        "SPARK_HOME": str(home),
        "JAVA_HOME": str(find_java().home),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    environment["PATH"] = f"{home / 'bin'}{os.pathsep}{os.environ['PATH']}"
    ran = subprocess.run(
        here, shell=True, cwd=place.folder, env=environment, capture_output=True, text=True, check=False
    )

    assert ran.returncode == 0, ran.stderr[-3_000:]
    assert sorted(line.split("\t")[:2] for line in ran.stdout.splitlines()) == [["1", "tea"], ["2", "milk"]]
