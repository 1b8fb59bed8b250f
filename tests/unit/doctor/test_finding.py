"""Findings as values: stored, printed, read back from a log, and never with a secret."""

from __future__ import annotations

import json
import time

from frazil.cli.doctor import lines, summary
from frazil.doctor.asking import Asking
from frazil.doctor.finding import Finding, Report, report_in, without
from frazil.model.errors import BrokerError


class Panic(BaseException):
    """As a native module's panic reaches Python (PyO3's PanicException): not an Exception."""


WELL = Finding("broker", "metadata", "ok", "3 brokers")
BAD = Finding("registry", "subject s", "failed", "one\ntwo", "do this")
UNASKED = Finding("clock", "against AWS", "not asked", "the configuration uses no AWS service")


def test_what_is_not_asked_is_no_failure() -> None:
    assert Report("here", (WELL, UNASKED)).well
    assert not Report("here", (WELL, BAD, UNASKED)).well


def test_a_report_is_found_again_among_other_lines() -> None:
    report = Report("this machine", (WELL, BAD))
    printed = json.dumps(report.to_json(), indent=2)

    assert report_in(f"{{not json\nstarting\n{printed}\nstopping\n") == report
    assert report_in(printed.replace("\n", "\n\n")) == report


def test_other_json_and_half_a_report_are_none() -> None:
    printed = json.dumps(Report("this machine", (WELL,)).to_json(), indent=2)

    assert report_in('{"place": "x"}\n{"findings": [1]}\n') is None
    assert report_in(printed[:-10]) is None
    assert report_in("") is None


def test_the_newest_of_several_reports_counts() -> None:
    first, second = (json.dumps(Report(place, (WELL,)).to_json()) for place in ("first", "second"))

    found = report_in(f"{first}\n{second}\n")

    assert found is not None
    assert found.place == "second"


def test_a_secret_that_a_library_puts_into_its_words_is_taken_out() -> None:
    told = Finding("broker", "metadata", "failed", "bad password hunter2-hunter2", "not hunter2-hunter2")

    hidden = without(told, {"hunter2-hunter2", "", "bad"})

    assert (hidden.found, hidden.hint) == ("bad password ***", "not ***")


def test_a_check_that_takes_too_long_is_left_behind() -> None:
    began = time.monotonic()

    finding = Asking("broker", seconds=0.1).ask("metadata", lambda: str(time.sleep(2)))

    assert (finding.verdict, finding.found) == ("failed", "no answer within 0.1 s")
    assert time.monotonic() - began < 1


def test_what_a_check_raises_is_its_finding() -> None:
    def refuse() -> str:
        raise BrokerError("it refuses", hint="ask again")

    def break_down() -> str:
        raise ZeroDivisionError("by zero")

    def panic() -> str:
        raise Panic("at lib.rs:7")

    assert Asking("broker").ask("a", refuse) == Finding("broker", "a", "failed", "it refuses", "ask again")
    assert Asking("broker").ask("b", break_down).found == "ZeroDivisionError: by zero"
    assert Asking("broker").ask("c", panic).found == "Panic: at lib.rs:7"


def test_a_finding_is_a_line_and_its_hint_another() -> None:
    assert list(lines(WELL)) == ["ok         broker: metadata: 3 brokers"]
    assert "\n".join(lines(BAD)).splitlines() == [
        "failed     registry: subject s: one",
        "           two",
        "           hint: do this",
    ]
    assert summary(Report("here", (WELL, BAD))) == "\nhere: 2 checks: 1 ok, 1 failed"
