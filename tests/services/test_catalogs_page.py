"""docs/catalogs.md on a REST catalog: its settings, the commands that use them, and readers with a client's secret."""

from __future__ import annotations

import re
from dataclasses import replace

import duckdb
import pytest
import yaml
from breadth import Place, catch_up, receipts
from walk_through import DOCS, FENCE

from frazil.cli import app
from frazil.local.rest import CLIENT_SECRET
from frazil.materialize.clients import Step
from frazil.query import extension_file
from tests.fakes.served_front import Meddling, port_behind, served_front, tokens_for_the_client

PAGE = (DOCS / "catalogs.md").read_text(encoding="utf-8")
LOCAL_ADDRESS = "http://127.0.0.1:8181"
SPEC = "topic: {topic}\nkey: none\nvalue: json\nfields: {{n: int}}\n"

VALUES = [b'{"n": 1}', b'{"n": 2}', b'{"n": 3}']


def fenced(language: str) -> list[str]:
    return [text for found, text in FENCE.findall(PAGE) if found == language]


@pytest.fixture
def on_rest(place: Place, rest_catalog_url: str) -> Place:
    """The first settings of the page."""
    settings = yaml.safe_load(fenced("yaml")[0].replace("${local:rest_catalog_url}", f"'{rest_catalog_url}'"))
    return Place(place.services, place.folder, catalog=settings["catalog"])


def filled(place: Place) -> str:
    """Return the topic of a table with three rows."""
    topic = place.topic()
    place.send(topic, *VALUES)
    catch_up(place.run(SPEC.format(topic=topic)))
    return topic


def duck() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect(config={"autoinstall_known_extensions": "false"})
    for name in ("avro", "httpfs", "iceberg"):
        connection.execute(f"LOAD '{extension_file(name)}'")
    return connection


def followed(sql: str) -> list[tuple[object, ...]]:
    """Run the statements of the page; the extension is there already."""
    connection = duck()
    for statement in filter(
        None, map(str.strip, re.sub(r"^(INSTALL|LOAD) .*$", "", sql, flags=re.MULTILINE).split(";"))
    ):
        connection.execute(statement)
    return connection.fetchall()


def test_commands_and_readers_work_as_the_page_says(
    on_rest: Place, rest_catalog_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    topic = filled(on_rest)
    table = f"{on_rest.name}.{topic}"

    def run(*words: str) -> str:
        assert app.run([*words, "--config", str(on_rest.folder / "frazil.yaml")]) == 0, capsys.readouterr()
        return capsys.readouterr().out

    assert run("query", f"SELECT count(*) FROM {table}", "--csv").split()[-1] == "3"
    assert "3 rows" in run("verify", table)
    run("verify", table, "--against-kafka")
    run("status")
    run("check")
    doctor = run("doctor")
    assert f"opened by OneAttemptRestCatalog at {rest_catalog_url}" in doctor
    assert "a rest catalog places each table itself" in doctor

    (sql,) = fenced("sql")
    sql = sql.replace(LOCAL_ADDRESS, rest_catalog_url).replace("lake.stock_trades", table)
    assert followed(sql) == [(3,)]
    with pytest.raises(duckdb.Error, match="OAuth2 token request failed"):
        followed(sql.replace(CLIENT_SECRET, "gu3ss"))
    (script,) = fenced("python")
    script = script.replace(LOCAL_ADDRESS, rest_catalog_url).replace("lake.stock_trades", table)
    exec(compile(script, "<page>", "exec"), {})
    assert "kafka_offset" in capsys.readouterr().out


def test_a_token_is_renewed_in_the_middle_of_a_run(place: Place, rest_catalog_url: str) -> None:
    """All tokens expire before each step of a batch, so that each commit meets one that has."""
    del rest_catalog_url
    front = Meddling(tokens_for_the_client(), port_behind())

    def expire(when: str, step: Step) -> None:
        if when == "before":
            now = front.tokens.clock() + 2 * front.tokens.seconds
            front.tokens = replace(front.tokens, clock=lambda: now)

    with served_front(front) as url:
        place = Place(
            place.services,
            place.folder,
            catalog={"type": "rest", "uri": url, "client_id": "local", "client_secret": CLIENT_SECRET},
        )
        topic = place.topic()
        place.send(topic, *VALUES)
        outcomes = catch_up(place.run(SPEC.format(topic=topic), observe=expire))

    assert len(receipts(outcomes)) == 1
    assert front.tokens_asked > 5
