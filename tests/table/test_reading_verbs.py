"""The verbs as they are typed: what goes to stdout, what to stderr, and the exit status."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from frazil.adapters.kafka.reader import KafkaReader
from frazil.adapters.registry import ConfluentRegistry
from frazil.cli import dead_letters, verify
from frazil.cli.app import run
from frazil.dead_letters import DeadLetter, DeadLetterList, list_dead_letters, preview
from frazil.materialize.pause.pausing import PAUSED_PROPERTY, excluded_schemas_property, pause_by_run
from frazil.model.errors import BrokerError, IncompatibleSchemaError, RegistryError
from frazil.model.schemas import ExcludedSchemas
from frazil.verify.table import verify_table
from tests.fakes.clients_in_memory import RegistryInMemory, a_field, record
from tests.table.small_lake import NOON, Read, SmallLake, without

Captured = pytest.CaptureFixture[str]


def test_verify_of_a_proven_table(config: str, capsys: Captured) -> None:
    assert run(["verify", "--config", config]) == 0

    out = capsys.readouterr().out
    assert out.startswith("lake.orders: proven at epoch 2, snapshot ")
    assert ", complete through 2026-01-31T12:00:00Z\n" in out
    assert out.count("\n  ok   ") == 5


def test_verify_of_a_table_without_a_batch_says_so(empty_lake: SmallLake) -> None:
    (verdict, *_) = verify.lines(verify_table(empty_lake.lake, empty_lake.spec))

    assert verdict.startswith("lake.orders: proven at epoch 0, no batch yet, snapshot ")


def test_verify_that_finds_something_is_exit_one(config: str, lake: SmallLake, capsys: Captured) -> None:
    lake.compact(without("kafka_offset", 77))

    assert run(["verify", "orders", "--config", config]) == 1

    out = capsys.readouterr().out
    assert out.startswith("lake.orders: NOT PROVEN at epoch 2")
    assert "\n         lost_rows: orders-0: missing: 1 of 97 rows: offset 77\n" in out


def test_verify_as_json(config: str, lake: SmallLake, capsys: Captured) -> None:
    lake.compact(without("kafka_offset", 77))

    assert run(["verify", "--json", "--config", config]) == 1

    (found,) = json.loads(capsys.readouterr().out)
    assert (found["clean"], found["epoch"]) == (False, 2)
    findings = [each for check in found["checks"] for each in check["findings"]]
    assert {"kind": "lost_rows", "offsets": [77]}.items() <= findings[-1].items()


def test_verify_closes_its_clients_also_if_it_fails(config: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A consumer that is only forgotten may crash the process later."""
    closed: list[str] = []

    def fail(*_: object) -> None:
        raise BrokerError("no broker", hint="wait")

    for client in (KafkaReader, ConfluentRegistry):
        monkeypatch.setattr(client, "close", lambda self, close=client.close: (closed.append(""), close(self)))
    monkeypatch.setattr("frazil.verify.table.compare", fail)
    monkeypatch.setattr("frazil.cli.verify._bound_memory", lambda: None)

    assert run(["verify", "--against-kafka", "--config", config]) == BrokerError.exit_status
    assert len(closed) == 2


def test_query_by_plain_and_by_whole_name(config: str, capsys: Captured) -> None:
    sql = (
        "SELECT count(*) AS n, min(o.kafka_timestamp) AS first, count(d.value) AS bad"
        " FROM orders o LEFT JOIN lake.ORDERS__dead_letters d ON o.kafka_offset = d.offset AND o.kafka_partition = 1"
    )

    assert run(["query", sql, "--config", config]) == 0

    said = capsys.readouterr()
    assert said.out.splitlines() == [
        "  n  first                 bad",
        "---  --------------------  ---",
        "147  2026-01-31T12:00:00Z    2",
    ]
    assert said.err == "(1 row)\n"


def test_query_as_json_and_csv(config: str, capsys: Captured) -> None:
    sql = 'SELECT "offset", value, schema_id FROM orders__dead_letters ORDER BY "offset"'

    assert run(["query", "--json", sql, "--config", config]) == 0
    assert json.loads(capsys.readouterr().out) == [
        {"offset": 10, "value": b"not framed".hex(), "schema_id": None},
        {"offset": 21, "value": b"\x00\x00\x00\x00\x07bad".hex(), "schema_id": 7},
    ]

    assert run(["query", "--csv", sql, "--config", config]) == 0
    assert capsys.readouterr().out == "offset,value,schema_id\n10,0x6e6f74206672616d6564,\n21,0x0000000007626164,7\n"


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("MAP {'a': 1, 'b': NULL}", {"a": 1, "b": None}),
        ("MAP {1: 'x'}", [[1, "x"]]),
        ("[{'m': MAP {'k': MAP {'l': 2}}}, NULL]", [{"m": {"k": {"l": 2}}}, None]),
        ("MAP {'k': [MAP {'l': 2}]}", {"k": [{"l": 2}]}),
    ],
    ids=["text keys", "numbers as keys", "in a struct", "in a list"],
)
def test_query_prints_a_map_as_an_object_where_its_keys_are_text(
    config: str, capsys: Captured, sql: str, expected: object
) -> None:
    assert run(["query", "--json", f"SELECT {sql} AS m", "--config", config]) == 0
    assert json.loads(capsys.readouterr().out) == [{"m": expected}]

    assert run(["query", f"SELECT {sql} AS m", "--config", config]) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[2]) == expected


def test_query_reads_the_newest_snapshot(config: str, lake: SmallLake, capsys: Captured) -> None:
    lake.batch(Read("orders", 0, 100, 103))

    run(["query", "--csv", "SELECT max(kafka_offset) AS m FROM orders", "--config", config])

    assert capsys.readouterr().out == "m\n102\n"


def test_query_lists_the_tables(config: str, capsys: Captured) -> None:
    run(["query", "--csv", "SHOW TABLES", "--config", config])

    assert capsys.readouterr().out == "name\norders\norders__dead_letters\n"


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("SELECT nothing FROM orders", 'Referenced column "nothing" not found'),
        ("SELEC 1", "syntax error"),
        ("DROP VIEW orders", "found DROP"),
        ("COPY orders TO 'orders.csv'", "found COPY"),
        ("SELECT 1; SELECT 2", "found SELECT, SELECT"),
        ("SELECT 1/CAST('x' AS INT)", "Conversion Error"),
    ],
)
def test_query_that_cannot_be_carried_out_is_misuse(config: str, capsys: Captured, sql: str, said: str) -> None:
    assert run(["query", sql, "--config", config]) == 2

    captured = capsys.readouterr()
    assert said in captured.err
    assert captured.out == ""


def test_query_of_a_misspelt_table_suggests_the_table_of_the_lake(config: str, capsys: Captured) -> None:
    assert run(["query", "SELECT count(*) FROM orderz", "--config", config]) == 2

    said = capsys.readouterr().err
    assert "Table with name orderz does not exist! Did you mean lake.orders?" in said
    assert said.count("Did you mean") == 1
    assert "`frazil query 'SHOW TABLES'` lists the tables" in said


def test_query_of_a_table_unlike_all_others_suggests_none(config: str, capsys: Captured) -> None:
    assert run(["query", "SELECT count(*) FROM zzz", "--config", config]) == 2

    said = capsys.readouterr().err
    assert "Table with name zzz does not exist!" in said
    assert "Did you mean" not in said


def test_query_of_a_table_whose_file_is_gone_is_a_failure(config: str, lake: SmallLake, capsys: Captured) -> None:
    lake.files()[0].unlink()

    assert run(["query", "SELECT sum(kafka_offset) FROM orders", "--config", config]) == 1
    assert "could not read the tables of the query" in capsys.readouterr().err


def test_dead_letters_by_reason_then_the_newest(config: str, lake: SmallLake, capsys: Captured) -> None:
    lake.batch(Read("orders", 1, 50, 60, dead=(52, 54)))

    assert run(["dead-letters", "list", "orders", "--limit", "3", "--config", config]) == 0

    out = capsys.readouterr().out
    assert out.splitlines()[:4] == [
        "dead letters  reason      schema  newest",
        "------------  ----------  ------  -----------",
        "           3  not_framed    none  orders-1@54",
        "           1  bad_utf8         7  orders-0@21",
    ]
    assert [line.split("  ")[0] for line in out.splitlines() if line.startswith("orders-")] == [
        "orders-1@54",
        "orders-1@52",
        "orders-0@21",
    ]
    assert "orders-0@21  bad_utf8 at order.note: invalid start byte\n  schema 7, written 2026-01-31T12:00:00Z" in out
    assert '  key "21", value 0x0000000007626164' in out


def test_dead_letters_as_json(config: str, capsys: Captured) -> None:
    assert run(["dead-letters", "list", "orders", "--limit", "1", "--json", "--config", config]) == 0

    value = json.loads(capsys.readouterr().out)
    assert (value["total"], value["by_reason"]) == (2, {"bad_utf8": 1, "not_framed": 1})
    (newest,) = value["newest"]
    assert (newest["record"], newest["value"]) == ("orders-0@21", "0000000007626164")


def test_dead_letters_of_one_reason_or_schema(config: str, capsys: Captured) -> None:
    for chosen in (["--reason", "bad_utf8"], ["--schema-id", "7"]):
        assert run(["dead-letters", "list", "orders", *chosen, "--json", "--config", config]) == 0
        value = json.loads(capsys.readouterr().out)
        assert value["groups"] == [
            {"reason": "bad_utf8", "schema_id": 7, "schema_uuid": None, "count": 1, "newest": "orders-0@21"}
        ]
        assert [letter["record"] for letter in value["newest"]] == ["orders-0@21"]
    assert run(["dead-letters", "list", "orders", "--reason", "truncated", "--config", config]) == 0
    assert capsys.readouterr().err == "lake.orders has no dead letters with the reason truncated\n"
    assert run(["dead-letters", "list", "orders", "--reason", "bad_uft8", "--config", config]) == 2
    assert "did you mean bad_utf8?" in capsys.readouterr().err


def test_groups_are_added_up_over_batches(lake: SmallLake) -> None:
    lake.batch(Read("orders", 1, 50, 60, dead=(52, 54)))
    lake.batch(Read("orders", 0, 100, 110, dead=(102,)))

    groups = {group.reason: group for group in list_dead_letters(lake.lake, lake.spec, limit=0).groups}

    assert (groups["not_framed"].count, groups["not_framed"].newest) == (4, "orders-0@102")


def test_a_dead_letter_is_shown_whole(config: str, monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    _with_registry(monkeypatch, record(a_field("symbol", "string")))

    assert run(["dead-letters", "show", "orders", "orders-0@21", "--config", config]) == 0

    assert capsys.readouterr().out.splitlines() == [
        "orders-0@21  bad_utf8 at order.note: invalid start byte",
        "  schema 7, written 2026-01-31T12:00:00Z, read 2026-01-31T12:01:00Z in batch batch1",
        "  cannot be decoded now: unknown_schema_id: the registry has no schema with the id 7",
        "  key: 2 bytes",
        "    00000000  32 31                                            21",
        "  value: 8 bytes",
        "    00000000  00 00 00 00 07 62 61 64                          .....bad",
    ]


def test_a_dead_letter_that_can_be_decoded_now_is_shown_decoded(
    config: str, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    registry = RegistryInMemory()
    for number in range(7):
        fixed = a_field("symbol", {"type": "fixed", "name": "three", "size": 3})
        registry.register("orders-value", record(fixed, name=f"Order{number}"))
    monkeypatch.setattr(ConfluentRegistry, "by_id", lambda _, schema_id: registry.by_id(schema_id))

    assert run(["dead-letters", "show", "orders", "orders-0@21", "--config", config]) == 0
    out = capsys.readouterr().out
    assert "\n  decoded now:\n    symbol  0x626164\n" in out
    assert run(["dead-letters", "show", "orders", "orders-0@21", "--json", "--config", config]) == 0
    (found,) = json.loads(capsys.readouterr().out)
    assert (found["decoded"], found["problem"], found["headers"]) == ({"symbol": "626164"}, None, [])


def test_a_dead_letter_of_a_table_without_a_registry_is_decoded_by_the_spec(
    config: str, tmp_path: Path, capsys: Captured
) -> None:
    (tmp_path / "tables" / "orders.yaml").write_text("topic: orders\nkey: string\nvalue: json\n")

    assert run(["dead-letters", "show", "orders", "orders-0@10", "--config", config]) == 0
    assert "\n  cannot be decoded now: bad_json" in capsys.readouterr().out


def test_a_dead_letter_is_shown_while_the_registry_is_down(
    config: str, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    registry = RegistryInMemory(down=True)
    monkeypatch.setattr(ConfluentRegistry, "by_id", lambda _, schema_id: registry.by_id(schema_id))

    assert run(["dead-letters", "show", "orders", "orders-0@21", "--config", config]) == 0
    assert "\n  cannot be decoded now: the registry is down\n" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("record_name", "said"),
    [
        ("orders-0@20", "lake.orders has no dead letter of the record orders-0@20"),
        ("orders", "orders names no record: expected topic-partition@offset, such as orders-0@1234"),
        ("orders-x@1", "orders-x@1 names no record"),
    ],
)
def test_a_record_that_is_no_dead_letter_is_told(config: str, record_name: str, said: str, capsys: Captured) -> None:
    assert run(["dead-letters", "show", "orders", record_name, "--config", config]) == 2

    assert said in capsys.readouterr().err


def test_long_bytes_are_cut_and_headers_are_shown(lake: SmallLake) -> None:
    letter = DeadLetter(
        topic="orders",
        partition=0,
        offset=1,
        timestamp=None,
        reason="truncated",
        path="",
        detail="",
        schema_id=None,
        batch_id="b",
        read_at=NOON,
        key=None,
        value=bytes(1_100),
        headers=(("trace", b"\xff"), ("note", None)),
    )

    said = list(dead_letters._shown(DeadLetterList("lake.orders", (letter,), ()), ["truncated: ends"]))

    assert said[2:4] == ["  header trace: 0xff", "  header note: null"]
    assert said[5:7] == ["  key: null", "  value: 1,100 bytes"]
    assert said[-1] == "    and 76 more bytes: --json prints them all"
    assert len(said) == 7 + dead_letters.MOST_LINES + 1


def test_dead_letters_without_a_limit_worth_naming(lake: SmallLake) -> None:
    assert list_dead_letters(lake.lake, lake.spec, limit=0).newest == ()


@pytest.mark.parametrize(
    ("content", "shown"),
    [
        (None, "null"),
        (b"", '""'),
        ("žluť".encode(), '"žluť"'),
        (b"\x00\xff", "0x00ff"),
        (b"a\nb", "0x610a62"),
        (b"a" * 60, '"' + "a" * 48 + '"…'),
    ],
)
def test_preview_of_bytes(content: bytes | None, shown: str) -> None:
    assert preview(content) == shown


def test_pause_and_resume_say_what_they_did(config: str, capsys: Captured) -> None:
    assert run(["resume", "orders", "--config", config]) == 0
    assert capsys.readouterr().err == "lake.orders is not paused; nothing was changed\n"

    assert run(["pause", "orders", "--why", "mending", "--by", "ann", "--config", config]) == 0
    assert capsys.readouterr().err.startswith("lake.orders is paused;")

    assert run(["resume", "lake.orders", "--config", config]) == 0
    assert "it was paused by ann at " in capsys.readouterr().err


def _paused_by_schema(lake: SmallLake, schema_id: int | None = None) -> None:
    refused = IncompatibleSchemaError(
        "the writer schema 2 does not fit", hint="register a compatible schema", schema_id=schema_id
    )
    said = pause_by_run(because=refused, at=NOON)
    lake.lake.set_properties("lake.orders", put={PAUSED_PROPERTY: said})


def _with_registry(monkeypatch: pytest.MonkeyPatch, schema: str) -> None:
    registry = RegistryInMemory()
    registry.register("orders-value", schema)
    monkeypatch.setattr(ConfluentRegistry, "latest", lambda _, subject: registry.latest(subject))
    monkeypatch.setattr(ConfluentRegistry, "by_id", lambda _, schema_id: registry.by_id(schema_id))


def test_resume_of_a_table_that_will_pause_again_fails_and_says_what_to_do(
    config: str, lake: SmallLake, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    _paused_by_schema(lake)
    _with_registry(monkeypatch, record(a_field("symbol", "boolean")))

    assert run(["resume", "orders", "--config", config]) == 1

    err = capsys.readouterr().err
    assert err.startswith("lake.orders is resumed; it was paused by frazil at ")
    assert "IncompatibleSchemaError: lake.orders: the next run will pause it: the writer schema 1 is not" in err
    assert "hint: run `frazil resume lake.orders --dead-letter-schema 1` to go on" in err
    assert PAUSED_PROPERTY not in lake.view.properties


def test_resume_names_the_condition_if_the_registered_schema_fits(
    config: str, lake: SmallLake, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    _paused_by_schema(lake)
    _with_registry(monkeypatch, record(a_field("symbol", "string")))

    assert run(["resume", "orders", "--config", config]) == 0

    assert capsys.readouterr().err.endswith(
        "if the cause lasts, the next run pauses it again: register a compatible schema\n"
    )


def test_resume_does_not_repeat_the_advice_that_was_just_followed(
    config: str, lake: SmallLake, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    _paused_by_schema(lake, schema_id=2)
    _with_registry(monkeypatch, record(a_field("symbol", "string")))

    assert run(["resume", "orders", "--dead-letter-schema", "2", "--config", config]) == 0

    said = capsys.readouterr().err
    assert said.startswith("records of lake.orders with the schema 2 become dead letters\nlake.orders is resumed;")
    assert "if the cause lasts" not in said


def test_a_schema_that_is_included_again_is_compared_with_the_table(
    config: str, lake: SmallLake, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    lake.lake.set_properties("lake.orders", put=excluded_schemas_property(ExcludedSchemas(frozenset({1}))))
    _with_registry(monkeypatch, record(a_field("symbol", "boolean")))

    assert run(["resume", "orders", "--no-dead-letter-schema", "1", "--config", config]) == 1

    assert "lake.orders: the next run will pause it: the writer schema 1 is not" in capsys.readouterr().err


def test_resume_without_a_registry_still_resumes(
    config: str, lake: SmallLake, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    def fail(*_: object) -> None:
        raise RegistryError("no answer", hint="wait")

    _paused_by_schema(lake)
    monkeypatch.setattr(ConfluentRegistry, "latest", fail)

    assert run(["resume", "orders", "--config", config]) == 0

    assert capsys.readouterr().err.endswith("whether the next run pauses it again is unknown: no answer\n")
    assert PAUSED_PROPERTY not in lake.view.properties


def test_unknown_table_is_misuse(config: str, capsys: Captured) -> None:
    assert run(["dead-letters", "list", "order", "--config", config]) == 2
    assert "no table order in" in capsys.readouterr().err


def test_nothing_but_the_answer_is_written(config: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    before = sorted(path for path in tmp_path.rglob("*"))

    run(["query", "SELECT count(*) FROM orders", "--config", config])
    run(["verify", "--config", config])

    assert sorted(path for path in tmp_path.rglob("*")) == before
