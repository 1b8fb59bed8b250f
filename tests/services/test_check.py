"""`frazil check` against real services: what it says, how it exits, and that `frazil materialize` refuses the same."""

from __future__ import annotations

import functools
import json
import subprocess
import sys
from pathlib import Path

import pytest
from breadth import NoSecrets, Place, record_of
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField, StringType

from frazil.adapters import registry
from frazil.adapters.iceberg.lake import IcebergLake
from frazil.adapters.kafka import topics
from frazil.cli import app
from frazil.model.settings import RegistrySettings
from frazil.specs.load import load_settings

SCHEMA = record_of(("n", "long"), ("day", {"type": "int", "logicalType": "date"}))
Said = pytest.CaptureFixture[str]


class OpenRegistry(registry.ConfluentRegistry):
    """A client that the commands of all tests use: none of them closes it."""

    def close(self) -> None: ...


@functools.cache
def _one_for(url: str) -> OpenRegistry:
    return OpenRegistry(RegistrySettings(url))


@pytest.fixture(autouse=True)
def one_client_of_each_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    """An HTTP client that a command leaves open until its process ends is a warning here, and warnings are errors."""
    monkeypatch.setattr(registry, "ConfluentRegistry", lambda settings: _one_for(settings.url))


def frazil(place: Place, *arguments: str) -> int:
    return app.run([*arguments, "--config", str(place.folder / "frazil.yaml")])


def topic_with(place: Place, schema: object = SCHEMA) -> str:
    topic = place.topic()
    place.register(f"{topic}-value", schema)
    return topic


def tables(place: Place) -> list[str]:
    catalog = IcebergLake(load_settings(place.folder / "frazil.yaml", {}, NoSecrets()).catalog).catalog
    return [name for _, name in catalog.list_tables(place.name)] if catalog.namespace_exists(place.name) else []


def refuses(place: Place, capsys: Said, status: int, *said: str) -> None:
    """Both commands say the same, no table is made, and they exit alike."""
    before = tables(place)
    for command in (("check",), ("materialize", "--create-only")):
        capsys.readouterr()
        assert frazil(place, *command) == status, command
        heard = capsys.readouterr().err
        assert [each for each in said if each not in heard] == [], heard
    assert tables(place) == before


def test_a_good_configuration_passes_and_makes_nothing(place: Place, capsys: Said) -> None:
    topic = topic_with(place)
    place.settings(f"topic: {topic}\npartition_by: [month(day), bucket(4, n)]")

    assert frazil(place, "check") == 0

    out, err = capsys.readouterr()
    assert out.startswith(f"{place.name}.{topic} <- {topic}: append avro")
    assert err.endswith(": 1 table, no problems found.\n")
    assert tables(place) == []
    assert frazil(place, "materialize", "--create-only") == 0
    assert frazil(place, "check") == 0


def test_a_topic_and_a_subject_that_are_not_there(place: Place, capsys: Said) -> None:
    like = place.topic("-nowheer")
    place.settings(f"topic: {place.name}-nowhere\ntable: t\nsubject: {{name: {topic_with(place)}-value}}")
    refuses(
        place,
        capsys,
        3,
        f"{place.name}.t: the cluster has no topic {place.name}-nowhere, or this user may not see it",
        f"hint: did you mean {like}? create the topic, or fix `topic` in ",
    )

    place.settings(f"topic: {place.topic('-without')}\ntable: t")
    refuses(
        place,
        capsys,
        3,
        f"the schema registry has no subject {place.name}-without-value",
        "hint: register it (a producer does with its first record)",
    )


def test_a_broker_that_does_not_answer(place: Place, capsys: Said, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topics, "ANSWER_SECONDS", 1.0)
    topic = topic_with(place)
    place.settings(f"topic: {topic}", f"topic: {topic}\ntable: second")
    rewrite(place, "kafka", {"bootstrap.servers": "127.0.0.1:9"})

    assert frazil(place, "check") == 1

    err = capsys.readouterr().err
    assert err.count("the Kafka cluster at 127.0.0.1:9 could not describe the topic") == 1
    assert f"hint: check `kafka` in {place.folder / 'frazil.yaml'} and that the cluster is up" in err


def test_a_registry_that_does_not_answer(place: Place, capsys: Said) -> None:
    place.settings(f"topic: {topic_with(place)}", f"topic: {place.name}\ntable: second")
    rewrite(place, "schema_registry", {"url": "http://127.0.0.1:9/"})

    assert frazil(place, "check") == 1

    err = capsys.readouterr().err
    assert err.count("the schema registry at http://127.0.0.1:9 could not look up the subject") == 1
    assert f"hint: check `schema_registry` in {place.folder / 'frazil.yaml'}" in err


def test_a_catalog_that_cannot_be_opened(place: Place, capsys: Said) -> None:
    place.settings(f"topic: {topic_with(place)}")
    (place.folder / "file").write_text("not a folder")
    rewrite(place, "catalog", {"type": "jdbc", "warehouse": "file"})

    for command in (("check",), ("materialize", "--create-only")):
        assert frazil(place, *command) == 1
        err = capsys.readouterr().err
        assert f"cannot write to the warehouse {place.folder / 'file'}: {place.folder / 'file'} is not a folder" in err
        assert "or change `catalog.warehouse`" in err


def test_settings_that_the_kafka_client_does_not_take(place: Place, capsys: Said) -> None:
    place.settings(f"topic: {topic_with(place)}")
    written = {"bootstrap.servers": "127.0.0.1:9", "security.protocol": "ssl", "ssl.ca.location": "gone.pem"}
    rewrite(place, "kafka", written)
    (place.folder / "gone.pem").write_text("no certificate")

    assert frazil(place, "check") == 2

    err = capsys.readouterr().err
    assert "the `kafka` settings cannot be used: " in err
    assert f"hint: fix `kafka` in {place.folder / 'frazil.yaml'}" in err


def test_a_schema_that_no_table_can_hold_says_everything_against_it(place: Place, capsys: Said) -> None:
    bad = record_of(("n", "long"), ("N", "int"), ("Kafka_offset", "int"), ("nothing", "null"))
    place.settings(f"topic: {topic_with(place, bad)}")
    refuses(place, capsys, 1, "  - N: n and N differ only in case")


def test_names_that_clash_with_the_columns_about_the_record(place: Place, capsys: Said) -> None:
    place.settings(f"topic: {topic_with(place, record_of(('Kafka_offset', 'int'), ('kafka_key', 'int')))}")
    refuses(
        place,
        capsys,
        1,
        "  - Kafka_offset: the name clashes with the metadata column kafka_offset",
        "  - kafka_key: the name clashes with the metadata column kafka_key",
    )


@pytest.mark.parametrize(
    ("by", "said"),
    [
        ("account", "partition_by: account names a column that the table does not have; its columns are n, day, "),
        ("hour(day)", "partition_by: hour(day) cannot partition by a column of type date"),
    ],
)
def test_partitions_that_the_table_cannot_have_are_misuse(place: Place, capsys: Said, by: str, said: str) -> None:
    place.settings(f"topic: {topic_with(place)}\npartition_by: [{by}]")

    refuses(place, capsys, 2, said, "hint: fix `partition_by` in ")


def test_tables_of_others(place: Place, capsys: Said) -> None:
    topic = topic_with(place)
    lake = IcebergLake(place.settings(f"topic: {topic}\ntable: theirs").catalog)
    lake.catalog.create_namespace(place.name)
    lake.catalog.create_table(f"{place.name}.theirs", Schema(NestedField(1, "n", LongType())))
    refuses(place, capsys, 1, f"the table {place.name}.theirs exists and Frazil did not create it", "--adopt")

    place.settings(f"topic: {topic}\ntable: ours")
    assert frazil(place, "materialize", "--create-only") == 0
    other = place.topic("-other")
    place.settings(f"topic: {other}\ntable: ours\nsubject: {{name: {topic}-value}}")
    refuses(
        place, capsys, 1, f"the table {place.name}.ours is owned by the pipeline {place.name}.ours<-{topic}, not by"
    )

    lake.catalog.create_table(f"{place.name}.fresh__dead_letters", Schema(NestedField(1, "n", StringType())))
    place.settings(f"topic: {topic}\ntable: fresh")
    refuses(place, capsys, 1, f"the table {place.name}.fresh__dead_letters, which would hold the dead letters, exists")


def test_a_table_whose_columns_do_not_fit_any_more(place: Place, capsys: Said) -> None:
    topic = topic_with(place)
    place.settings(f"topic: {topic}")
    assert frazil(place, "materialize", "--create-only") == 0
    place.register(f"{topic}-value", record_of(("n", "string"), ("day", "int")))
    capsys.readouterr()

    assert frazil(place, "check") == 1

    err = capsys.readouterr().err
    assert "  - n: is string in the writer's schema, the table has long" in err
    assert "  - day: is int in the writer's schema, the table has date" in err


def test_problems_of_several_kinds_are_listed_with_their_hints(place: Place, capsys: Said) -> None:
    topic = topic_with(place)
    place.settings(f"topic: {topic}\npartition_by: [account]", f"topic: {place.name}-nowhere\ntable: u")

    assert frazil(place, "check") == 1

    err = capsys.readouterr().err
    assert err.startswith(("The check found 3 problems.", "FrazilError: The check found 3 problems."))
    assert err.count("    fix `partition_by` in ") == 1


def test_offline_asks_nobody(place: Place, capsys: Said) -> None:
    place.settings(f"topic: {place.name}-nowhere")
    rewrite(place, "kafka", {"bootstrap.servers": "127.0.0.1:9"})

    assert frazil(place, "check", "--offline") == 0
    assert "no problems found" in capsys.readouterr().err


def rewrite(place: Place, section: str, values: dict[str, str]) -> None:
    path: Path = place.folder / "frazil.yaml"
    path.write_text(json.dumps({**json.loads(path.read_text()), section: values}))


def test_peek_shows_records_and_reasons_without_a_table(place: Place, capsys: Said) -> None:
    topic = topic_with(place)
    schema_id = place.register(f"{topic}-value", SCHEMA)
    place.send(topic, b"\0" + schema_id.to_bytes(4, "big") + b"\x0e\x02", b"no avro")
    place.settings(f"topic: {topic}")
    (place.folder / "tables" / "t00.yaml").unlink()

    command = ["peek", topic, "-n", "2", "--config", str(place.folder / "frazil.yaml")]
    program = [sys.executable, "-c", "from frazil.cli.app import main; main()"]
    ended = subprocess.run([*program, *command], capture_output=True, text=True, check=True)

    out, err = ended.stdout, ended.stderr
    assert "  n      7\n  day    1970-01-02\n" in out
    assert '(value)        "no avro"\n  (dead letter)  not_framed: ' in out
    assert "(2 records of at most 2 in 1 partition, 1 of them would be a dead letter;" in err
    assert not (place.folder / "warehouse").exists()
    assert frazil(place, "peek", f"{topic[:-1]}_") == 1
    assert f"hint: did you mean {topic}?" in capsys.readouterr().err


def test_init_writes_specs_that_pass_and_only_new_ones(place: Place, capsys: Said) -> None:
    first = topic_with(place)
    place.send(first, b"no avro", key=b"\xff")
    place.settings(f"topic: {first}")
    (place.folder / "tables" / "t00.yaml").unlink()
    spec = place.folder / "tables" / f"{place.name}.yaml"

    assert frazil(place, "init", first) == 0
    assert capsys.readouterr().out == f"{spec}\n"
    assert f"topic: {first}\n" in spec.read_text()
    assert "\nkey: bytes\n" in spec.read_text()
    assert frazil(place, "check") == 0

    place.topic(".without")
    second = place.topic(".more")
    place.register(f"{second}-value", SCHEMA)
    spec.write_text(spec.read_text() + "# mine\n")
    capsys.readouterr()
    assert frazil(place, "init", "--like", f"{place.name}*") == 0
    out, err = capsys.readouterr()
    assert out == f"{place.folder / 'tables' / place.name}_more.yaml\n"
    assert f"{first}: has a spec in {spec}\n" in err
    assert f"{first}.without: left out: the schema registry has no subject {first}.without-value" in err
    assert spec.read_text().endswith("# mine\n")
    assert frazil(place, "init", f"{first}.without") == 1
    assert "SubjectMissingError: " in capsys.readouterr().err


def test_queries_are_checked_before_the_tables_that_they_read_are_made(place: Place, capsys: Said) -> None:
    topic = topic_with(place)
    place.settings(f"topic: {topic}\ntable: days\npartition_by: [day]", "topic: other\ntable: others")
    queries = {
        "good": ("days", "SELECT day, count(*) AS records FROM days GROUP BY day"),
        "bad": ("good", "SELECT dey FROM good"),
        "unknown": ("others", "SELECT n FROM others"),
    }
    (place.folder / "transforms").mkdir()
    for name, (source, sql) in queries.items():
        (place.folder / "transforms" / f"{name}.yaml").write_text(f"from: {source}\nsql: {sql}\n", encoding="utf-8")

    assert frazil(place, "check") == 1

    said = capsys.readouterr().err
    assert "transforms/bad.yaml: sql (line 1 of the SQL, character 8): " in said
    assert "`dey` cannot be resolved" in said
    assert "transforms/good.yaml" not in said
    assert "    the tables are good\n" in said
    known = (
        f"the query of unknown is not checked: the columns of {place.name}.others, which does not exist yet, are not"
    )
    assert known in said
    assert tables(place) == []
