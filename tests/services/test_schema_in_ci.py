"""`frazil plan-schema` against a real registry, as docs/operate.md describes it as a step of a producer's build."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest
from breadth import Place, encode, record_of, registry_client

from frazil.cli import app

Said = pytest.CaptureFixture[str]
ORDER = record_of(("order_id", "long"), name="shop.Order")
WIDER = record_of(("order_id", "long"), ("channel", "string"), name="shop.Order")
LONG_DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 39, "scale": 2}
LINES = {"type": "array", "items": record_of(("price", LONG_DECIMAL), name="shop.Line")}
OTHER = record_of(("lines", LINES), ("order_id", "string"), name="shop.Order")
"""Of its two findings, one is its own, and the other one is against the table."""
ITEM = record_of(("sku", "string"), name="shop.Item")
OF_ITEMS = record_of(("order_id", "long"), ("item", "shop.Item"), name="shop.Order")


@pytest.fixture
def orders(place: Place, monkeypatch: pytest.MonkeyPatch) -> Place:
    """A table of one record, and this process in the folder of its configuration."""
    topic = place.topic()
    place.send(topic, *encode(ORDER, place.register(f"{topic}-value", ORDER), {"order_id": 1}))
    place.materialize(f"topic: {topic}\ntable: orders")
    monkeypatch.chdir(place.folder)
    monkeypatch.setenv("COLUMNS", "120")
    return place


def documented() -> list[str]:
    """The blocks of the section: the command, then what it prints for a good schema and for one that is refused."""
    page = (Path(__file__).parents[2] / "docs" / "operate.md").read_text(encoding="utf-8")
    section = page.partition("### A schema in a producer's CI\n")[2].partition("\n### ")[0]
    return re.findall(r"```[a-z]*\n(.*?)```", section, re.DOTALL)


def write(schema: object, file: str = "order.avsc") -> None:
    Path(file).write_text(json.dumps(schema), encoding="utf-8")


def test_the_step_prints_what_the_page_says(orders: Place, capsys: Said) -> None:
    command, good, refused = documented()
    _, *arguments = shlex.split(command)
    for schema, status, expected in ((WIDER, 0, good), (OTHER, 1, refused)):
        write(schema)

        assert app.run(arguments) == status

        out, err = capsys.readouterr()
        said = (out + err.partition("\n\nhint: ")[0]).replace(f"{orders.name}.orders", "lake.orders")
        assert said.strip() == expected.strip()
    assert registry_client(orders.services).get_versions(f"{orders.name}-value") == [1], "nothing was registered"


def test_references_are_read_from_the_registry(orders: Place, capsys: Said) -> None:
    orders.register(f"{orders.name}.item", ITEM)
    uses = [{"name": "shop.Item", "subject": f"{orders.name}.item", "version": 1}]
    write({"schemaType": "AVRO", "schema": json.dumps(OF_ITEMS), "references": uses}, "request.json")

    assert app.run(["plan-schema", "orders", "--schema", "request.json"]) == 0

    assert "  add column item: struct<sku: string>\n" in capsys.readouterr().out
    assert app.run(["plan-schema", "orders", "--schema", "request.json", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["changes"][0]["path"] == "item"
    write({"schema": json.dumps(OF_ITEMS), "references": [{**uses[0], "version": 9}]}, "request.json")
    assert app.run(["plan-schema", "orders", "--schema", "request.json"]) == 1
    assert f"has no version 9 of {orders.name}.item" in capsys.readouterr().err


def test_a_version_of_the_subject_is_planned_for(orders: Place, capsys: Said) -> None:
    orders.register(f"{orders.name}-value", WIDER)

    assert app.run(["plan-schema", "orders", "--subject-version", "2"]) == 0

    said = capsys.readouterr().out
    assert "  without this schema: add column channel: string\n  no change of the table\n" in said
    assert app.run(["plan-schema", "orders", "--subject-version", "9"]) == 2
    assert f"no version 9 of {orders.name}-value, which has 1, 2" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "exactly one of --schema and --subject-version must be given"),
        (["--schema", "a", "--subject-version", "1"], "exactly one of --schema and --subject-version must be given"),
        (["--schema", "nowhere.avsc"], "could not read the schema nowhere.avsc"),
        (["--schema", "order.avsc", "--key"], "reads no schema of keys: key is string"),
        (["--schema", "frazil.yaml"], "frazil.yaml: not a valid Avro schema"),
        (["--schema", "frazil.yaml"], "orders has value: avro; give a file that the registry would accept"),
    ],
)
def test_misuse_says_what_is_wrong(orders: Place, capsys: Said, arguments: list[str], said: str) -> None:
    write(WIDER)

    assert app.run(["plan-schema", "orders", *arguments]) == 2

    assert said in capsys.readouterr().err
