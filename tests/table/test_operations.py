"""A table keeps who paused, resumed or rewound it, when and why."""

from __future__ import annotations

import getpass
import json

import pytest

from frazil.cli.app import run
from frazil.materialize.pause.by_operator import pause, resume
from frazil.materialize.pause.history import KEPT, Operation, note, operation, operations
from frazil.materialize.pause.pausing import OPERATIONS_PROPERTY
from tests.table.small_lake import NOON, SmallLake


def kept(lake: SmallLake) -> tuple[Operation, ...]:
    return operations(lake.view.properties)


def test_a_pause_that_ended_stays_with_who_ended_it(lake: SmallLake) -> None:
    pause(lake.lake, lake.spec, by="ann", why="the producer is being fixed", at=NOON)
    assert kept(lake) == ()

    resume(lake.lake, lake.spec, resumed=operation("resume", by="bob", at=NOON, why="it is fixed"))

    assert [str(each) for each in kept(lake)] == [
        "pause by ann at 2026-01-31T12:00:00Z: the producer is being fixed",
        "resume by bob at 2026-01-31T12:00:00Z: it is fixed",
    ]


def test_the_oldest_operations_are_left_out(lake: SmallLake) -> None:
    for number in range(KEPT + 2):
        note(lake.lake, lake.spec, operation("rewind", by="ann", at=NOON, why=str(number)))

    assert [each.why for each in kept(lake)] == [str(number) for number in range(2, KEPT + 2)]


@pytest.mark.parametrize("text", ["no json", "7", "{}", '["a"]', "[7]"])
def test_a_property_that_others_wrote_is_no_history(lake: SmallLake, text: str) -> None:
    lake.lake.set_properties(lake.spec.identifier, put={OPERATIONS_PROPERTY: text})

    assert kept(lake) == ()
    note(lake.lake, lake.spec, operation("rewind", by="ann", at=NOON))
    assert [str(each) for each in kept(lake)] == ["rewind by ann at 2026-01-31T12:00:00Z"]


def test_commands_record_who_when_and_why(config: str, lake: SmallLake, capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["pause", "orders", "--why", "repairs", "--config", config]) == 0
    assert run(["resume", "orders", "--why", "repaired", "--by", "bob", "--config", config]) == 0

    first, second = kept(lake)
    assert (first.what, first.by, first.why) == ("pause", getpass.getuser(), "repairs")
    assert (second.what, second.by, second.why) == ("resume", "bob", "repaired")
    capfd.readouterr()
    assert run(["status", "orders", "--config", config]) == 0
    assert f"lake.orders: resume by bob at {second.at}: repaired\n" in capfd.readouterr().out
    assert run(["status", "orders", "--json", "--config", config]) == 0
    (found,) = json.loads(capfd.readouterr().out)
    assert found["operations"][1] == {"what": "resume", "by": "bob", "at": second.at, "why": "repaired"}
