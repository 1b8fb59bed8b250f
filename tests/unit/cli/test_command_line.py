"""The frame of the command line: help, exit statuses, and where errors go."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from frazil.cli import app, check, config_name, reference
from frazil.local.supervisor import LocalServices
from frazil.model.errors import BrokerError, SpecError, TopicMissingError
from frazil.model.settings import Settings
from tests.routes import EVENTS

ROOT = Path(__file__).parents[3]
GOOD = "kafka: {bootstrap.servers: localhost:9092}\nschema_registry: {url: http://localhost:8081}\n"
HELPS = dict(reference.helps())
LEAVES = [name for name in HELPS if not any(other.startswith(f"{name} ") for other in HELPS)]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("FRAZIL_CONFIG", raising=False)
    monkeypatch.setattr(check, "CHECKS", ())
    (tmp_path / "frazil.yaml").write_text(GOOD)
    (tmp_path / "tables").mkdir()
    (tmp_path / "tables/orders.yaml").write_text("topic: orders")
    return tmp_path


def test_check_prints_one_line_a_table(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert app.run(["check"]) == 0

    out, err = capsys.readouterr()
    assert out == (
        "lake.orders <- orders: append avro, key string, partitioned by day(kafka_timestamp) (tables/orders.yaml)\n"
    )
    assert err == "frazil.yaml: 1 table, no problems found.\n"


@pytest.mark.parametrize("buffered", [True, False])
def test_a_reader_that_ends_first_is_no_failure_with_a_trace(folder: Path, buffered: bool) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, *([] if buffered else ["-u"]), "-m", "frazil.cli.app", "--help"]

    ended = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, cwd=folder, check=False)
    os.close(writing)

    assert (ended.returncode, ended.stderr) == (141, b"")


def test_a_configuration_error_is_misuse(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "tables/orders.yaml").write_text("topik: orders\ntopic: orders")

    assert app.run(["check"]) == 2

    out, err = capsys.readouterr()
    assert out == ""
    assert err == "SettingError: tables/orders.yaml:1:1: topik: unknown key\n\nhint: did you mean topic?\n"


def test_a_schema_is_planned_for_one_table_of_a_group(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "tables/orders.yaml").write_text(EVENTS, encoding="utf-8")

    assert app.run(["plan-schema", "events", "--schema", "order.avsc"]) == 2

    said = capsys.readouterr().err
    assert "events is a group of tables" in said
    assert "hint: name one of: orders, refunds" in said


def test_the_configuration_may_be_named_by_the_environment(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "frazil.yaml").rename(folder / "other.yaml")
    monkeypatch.setenv("FRAZIL_CONFIG", "other.yaml")

    assert app.run(["check"]) == 0
    assert "other.yaml: 1 table" in capsys.readouterr().err


ORIGIN = "FRAZIL_CONFIG selects this configuration; run `unset FRAZIL_CONFIG` to use ./frazil.yaml"


@pytest.fixture
def elsewhere(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The configuration that FRAZIL_CONFIG names, as a sourced file of a deployed environment does."""
    config = folder / "deployed" / "frazil.yaml"
    (config.parent / "tables").mkdir(parents=True)
    config.write_text(GOOD)
    (config.parent / "tables/trades.yaml").write_text("topic: trades")
    monkeypatch.setenv("FRAZIL_CONFIG", str(config))
    return config


@pytest.mark.parametrize("command", [name for name in LEAVES if name != "frazil demo"])
def test_every_command_refuses_a_missing_file_of_the_variable(
    elsewhere: Path, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    elsewhere.unlink()
    arguments = ["orders"] * HELPS[command].splitlines()[0].count("{")
    arguments += {
        "frazil pause": ["--why", "late"],
        "frazil rewind": ["--to", "earliest"],
        "frazil transform test": ["--input", "trades.csv", "--expect", "totals.csv"],
    }.get(command, [])

    assert app.run([*command.split()[1:], *arguments]) == 2

    out, err = capsys.readouterr()
    assert out == ""
    assert err == (
        f"SettingError: the environment variable FRAZIL_CONFIG names a file that does not exist: {elsewhere}\n\n"
        "hint: run `unset FRAZIL_CONFIG` to use ./frazil.yaml, or name another file: --config FILE\n"
    )


@pytest.mark.parametrize("file", ["frazil.yaml", "tables/trades.yaml"])
def test_an_error_of_a_file_says_that_the_variable_selected_it(
    elsewhere: Path, capsys: pytest.CaptureFixture[str], file: str
) -> None:
    with (elsewhere.parent / file).open("a") as text:
        text.write("\ntopik: x")

    assert app.run(["check"]) == 2

    assert capsys.readouterr().err.endswith(f"; {ORIGIN}\n")


def test_an_error_that_names_the_file_says_that_the_variable_selected_it(
    elsewhere: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    hints = iter(["check `kafka` in frazil.yaml", "start the broker"])

    def unreachable(settings: Settings) -> list[BrokerError]:
        raise BrokerError("No answer.", hint=next(hints))

    monkeypatch.setattr(check, "CHECKS", (unreachable,))

    assert [app.run(["check"]), app.run(["check"])] == [1, 1]
    assert capsys.readouterr().err == (
        f"BrokerError: No answer.\n\nhint: check `kafka` in {elsewhere}; {ORIGIN}\n"
        "BrokerError: No answer.\n\nhint: start the broker\n"
    )


def test_doctor_ends_with_what_selected_the_configuration(elsewhere: Path, capsys: pytest.CaptureFixture[str]) -> None:
    elsewhere.write_text("databse: lake")

    assert app.run(["doctor"]) == 1
    assert capsys.readouterr().out.endswith(f" not asked\n{ORIGIN}\n")


@pytest.mark.parametrize("named", ["--config", "frazil.yaml"])
def test_the_variable_is_not_mentioned_where_it_selects_nothing(
    elsewhere: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], named: str
) -> None:
    given = [named, "frazil.yaml"] if named == "--config" else []
    if not given:
        monkeypatch.setenv("FRAZIL_CONFIG", named)
    Path("frazil.yaml").write_text(f"{GOOD}databse: lake")

    assert app.run(["check", *given]) == 2
    assert "FRAZIL_CONFIG" not in capsys.readouterr().err


def test_addresses_of_another_configuration_are_not_to_be_written_into_it(
    elsewhere: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("frazil.local.supervisor.up", lambda services, directory: LocalServices("b", "r", "a"))

    assert app.run(["local", "up"]) == 0
    assert f"{elsewhere} uses other addresses: {ORIGIN}.\n" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [["chek"], ["check", "--confg", "x"], ["doctor", "extra"], []])
def test_a_wrong_command_is_misuse(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert app.run(arguments) == 2
    assert "Usage: frazil" in "".join(capsys.readouterr())


def test_findings_of_further_checks_are_shown_together(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def unreachable(settings: Settings) -> list[BrokerError]:
        raise BrokerError(f"No answer from {settings.kafka['bootstrap.servers']}.", hint="run `frazil local up`")

    def wrong(settings: Settings) -> list[SpecError]:
        return [SpecError(f"There is no topic {spec.topics[0]}.", hint="create it") for spec in settings.tables]

    monkeypatch.setattr(check, "CHECKS", (unreachable, wrong, unreachable))

    assert app.run(["check"]) == 1
    assert capsys.readouterr().err == (
        "The check found 2 problems.\n"
        "\n"
        "BrokerError: No answer from localhost:9092.\n"
        "    run `frazil local up`\n"
        "SpecError: There is no topic orders.\n"
        "    create it\n"
        "\n"
        "hint: run `frazil check` again after fixing them\n"
    )


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ("write: deduplicate\nidentity: [idd]", "identity: idd names a column that the table does not have"),
        ("write: history\norder_by: att\non_tombstone: skip", "order_by: att: names a column that the table does not"),
        ("partition_by: [day(att)]", "partition_by: "),
        ("sort_by: [idd]", "sort_by: "),
    ],
)
def test_check_finds_wrong_columns_of_declared_fields_offline(
    folder: Path, capsys: pytest.CaptureFixture[str], keys: str, said: str
) -> None:
    declared = f"topic: orders\nvalue: json\nfields: {{id: long, at: timestamptz}}\n{keys}\n"
    (folder / "tables/orders.yaml").write_text(declared)

    assert app.run(["check", "--offline"]) == 2

    err = capsys.readouterr().err
    assert said in err
    assert "did you mean" in err
    (folder / "tables/orders.yaml").write_text(declared.replace("idd", "id").replace("att", "at"))
    assert app.run(["check", "--offline"]) == 0


def test_check_takes_names_of_tables(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "tables" / "trades.yaml").write_text("topic: trades\n")
    asked: list[str] = []

    def no_problem(settings: Settings) -> list[SpecError]:
        asked.extend(spec.table for spec in settings.tables)
        return []

    monkeypatch.setattr(check, "CHECKS", (no_problem,))

    assert app.run(["check", "lake.trades"]) == 0

    said = capsys.readouterr()
    assert asked == ["trades"]
    assert said.out.count("\n") == 1
    assert said.out.startswith("lake.trades <- trades")
    assert said.err == "frazil.yaml: 1 table, no problems found.\n"
    assert app.run(["check", "trade"]) == 2
    assert "hint: did you mean trades?" in capsys.readouterr().err


def test_the_status_of_check_says_that_only_topics_are_missing(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    missing = TopicMissingError("lake.orders: the cluster has no topic orders", hint="create the topic")
    monkeypatch.setattr(check, "CHECKS", (lambda settings: [missing],))

    assert app.run(["check"]) == 3
    assert capsys.readouterr().err == (
        "TopicMissingError: lake.orders: the cluster has no topic orders\n"
        "\n"
        "hint: create the topic\n"
        "\n"
        "frazil.yaml: 1 table, no other problems found.\n"
    )

    monkeypatch.setattr(check, "CHECKS", (lambda settings: [missing, SpecError("two", hint="fix it")],))

    assert app.run(["check"]) == 1
    assert "no other problems" not in capsys.readouterr().err


def test_hints_name_the_file_that_config_names(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "frazil.yaml").rename(folder / "other.yaml")

    def unreachable(settings: Settings) -> list[BrokerError]:
        raise BrokerError("No answer, see /etc/frazil.yaml.", hint="check `kafka` in frazil.yaml")

    monkeypatch.setattr(check, "CHECKS", (unreachable,))

    assert app.run(["check", "--config", "other.yaml"]) == 1
    expected = "BrokerError: No answer, see /etc/frazil.yaml.\n\nhint: check `kafka` in {}\n"
    assert capsys.readouterr().err == expected.format("other.yaml")
    assert app.run(["check", "--config", "other.yaml"], config_called="s3://bucket/frazil.yaml") == 1
    assert capsys.readouterr().err == expected.format("s3://bucket/frazil.yaml")


def test_hints_name_the_program_as_the_shell_did(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`make setup` puts it into .venv/, which is on no PATH."""
    monkeypatch.chdir(folder)
    script = folder / ".venv" / "bin" / "frazil"
    script.parent.mkdir(parents=True)
    script.write_text("#!/bin/sh\n")
    script.chmod(0o755)

    def unreachable(settings: Settings) -> list[BrokerError]:
        raise BrokerError("Not frazil, `frazil` or frazil.yaml.", hint="run `frazil local up`")

    def hint_of(started_as: str) -> str:
        monkeypatch.setattr(config_name, "_CURRENT", config_name._Current())
        monkeypatch.setattr(sys, "argv", [started_as, "check"])
        with pytest.raises(SystemExit):
            app.main()
        what, hint = capsys.readouterr().err.split("\n\n")
        assert what == "BrokerError: Not frazil, `frazil` or frazil.yaml."
        return hint

    monkeypatch.setattr(check, "CHECKS", (unreachable,))
    monkeypatch.setenv("PATH", "/usr/bin")
    for started_as in (".venv/bin/frazil", str(script)):
        assert hint_of(started_as) == "hint: run `.venv/bin/frazil local up`\n"
    assert hint_of("/somewhere/frazil/cli/app.py") == "hint: run `frazil local up`\n"
    monkeypatch.setenv("PATH", str(script.parent))
    assert hint_of(str(script)) == "hint: run `frazil local up`\n"


def test_what_nobody_foresaw_shows_its_trace(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(check, "CHECKS", (lambda settings: 1 / 0,))

    assert app.run(["check"]) == 1
    assert "ZeroDivisionError" in capsys.readouterr().err


def test_an_interruption_ends_quietly(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(settings: Settings) -> list[BrokerError]:
        raise KeyboardInterrupt

    monkeypatch.setattr(check, "CHECKS", (interrupted,))

    assert app.run(["check"]) == 130
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("name", HELPS)
def test_every_command_has_a_summary_and_an_example(name: str) -> None:
    assert len(HELPS[name].splitlines()[2]) > 20
    assert name == "frazil" or "Example" in HELPS[name]


def test_no_help_is_wider_than_a_terminal_of_80_columns(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    for name in HELPS:
        assert app.run([*name.split()[1:], "--help"]) == 0

    assert [line for line in capsys.readouterr().out.splitlines() if len(line) > 80] == []


@pytest.mark.parametrize("name", [name for name in LEAVES if name != "frazil demo"])
def test_every_verb_takes_a_configuration(name: str) -> None:
    assert "--config FILE" in HELPS[name]


def test_the_reference_is_fresh() -> None:
    stale = [name for name, text in reference.pages().items() if not _holds(reference.FOLDER / name, text)]

    assert stale == [], "run: python -m frazil.cli.reference"


def _holds(path: Path, text: str) -> bool:
    return path.is_file() and path.read_text(encoding="utf-8") == text


@pytest.mark.parametrize("command", [[], ["local"], ["dead-letters"]], ids=["frazil", "local", "dead-letters"])
def test_summaries_of_commands_are_whole_at_80_columns(
    command: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")

    assert app.run([*command, "--help"]) == 0

    listed = capsys.readouterr().out.partition("Commands:\n")[2].partition("\n\n")[0]
    assert listed
    assert [line for line in listed.splitlines() if line.endswith("...")] == []


def test_help_imports_nothing_slow() -> None:
    code = (
        "import sys; from frazil.cli import app, config_name; app.run(['--help']);"
        "sys.exit(' '.join({'pyspark', 'pyarrow', 'moto', 'duckdb', 'boto3', 'confluent_kafka'} & set(sys.modules)))"
    )

    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)

    assert done.stderr.strip() == ""


def test_tables_without_a_delta_log_load_nothing_of_it() -> None:
    code = (
        "import sys, frazil.cli.clients, frazil.status; sys.exit(' '.join({'deltalake', 'arro3'} & set(sys.modules)))"
    )

    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)

    assert done.stderr.strip() == ""


def test_help_answers_at_once() -> None:
    before = cpu_seconds_of_children()

    subprocess.run([sys.executable, "-m", "frazil.cli.app", "--help"], cwd=ROOT, capture_output=True, check=True)

    assert cpu_seconds_of_children() - before < 3, "far above the 0.3 s of CPU that it takes"


def cpu_seconds_of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def test_shell_completion_is_installed_and_completes_commands(tmp_path: Path) -> None:
    program = [sys.executable, "-c", "from frazil.cli.app import main; main()"]
    home = {**os.environ, "HOME": str(tmp_path), "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}

    subprocess.run([*program, "--install-completion", "bash"], env=home, check=True, capture_output=True)
    asked = {**home, "_FRAZIL_COMPLETE": "complete_bash", "COMP_WORDS": "frazil mat", "COMP_CWORD": "1"}
    completed = subprocess.run(program, env=asked, check=True, capture_output=True, text=True)

    assert "-F _frazil_completion frazil" in (tmp_path / ".bash_completions" / "frazil.sh").read_text()
    assert completed.stdout.split() == ["materialize"]
