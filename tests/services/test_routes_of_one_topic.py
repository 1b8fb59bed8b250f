"""The example of docs/routes.md: one topic becomes several tables, which are proven together."""

from __future__ import annotations

from pathlib import Path

import pytest
from breadth import Place, Table, catch_up, encode, record_of

from frazil.adapters import registry
from frazil.cli import app
from frazil.materialize.outcome import Published

PAGE = Path(__file__).parents[2] / "docs" / "routes.md"
WEB = [("source", b"app"), ("source", b"web")]


@pytest.fixture
def example(place: Place) -> str:
    """The spec of the page, with names of its own."""
    text = PAGE.read_text(encoding="utf-8").split("```yaml\n")[1].split("```")[0]
    return text.replace("topic: events", f"topic: {place.topic()}").replace("shop.", f"{place.name}.")


def test_records_of_one_topic_are_in_the_table_of_their_route_or_dead_letters(
    place: Place, example: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    shared = place.opened()
    monkeypatch.setattr(registry.ConfluentRegistry, "close", lambda _: None)  # other tests of this process use it
    monkeypatch.setattr(registry, "ConfluentRegistry", lambda settings: shared)
    order, refund, other = (
        record_of(("n", "long"), name=f"{place.name}.{kind}") for kind in ("Order", "Refund", "Other")
    )
    sent = [
        (encode(schema, place.register(schema["name"], schema), {"n": n})[0], headers)
        for n, (schema, headers) in enumerate(
            [(order, []), (refund, WEB), (refund, WEB[::-1]), (other, WEB), (order, [])]
        )
    ]
    for value, headers in (*sent, (None, WEB)):
        place.send(place.name, value, headers=headers)
    run = place.run(example)

    outcomes = catch_up(run)

    orders, refunds = (Table(each) for each in run.of_each_table())
    assert (orders.rows("n"), refunds.rows("n")) == ([{"n": 0}, {"n": 4}], [{"n": 1}])
    letters = orders.dead_letters("offset", "reason")
    assert [tuple(each.values()) for each in letters] == [(2, "no_route"), (3, "no_route"), (5, "null_value")]
    assert sum(each.rows for each in outcomes if isinstance(each, Published)) == 3
    batches = {table.state.itself for table in (orders, refunds)}
    assert len(batches) == 1
    config = ["--config", str(place.folder / "frazil.yaml")]
    for arguments in (
        ["explain", "refunds"],
        ["check"],
        ["status", "events"],
        ["dead-letters", "list", "refunds"],
        ["verify", "refunds"],
        ["verify", "events", "--against-kafka"],
    ):
        assert app.run([*arguments, *config]) == 0, (arguments, capsys.readouterr())
    assert f"read together with {orders.spec.identifier}" in capsys.readouterr().out
