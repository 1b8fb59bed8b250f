"""Which table gets the next slot, and when none does."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field

import pytest

from frazil.materialize.scheduling.fair_queue import LEAST, MOST, FairQueue, in_flight

WAIT_SECONDS = 20.0


@dataclass
class Tables:
    """Threads that each ask for slots of one queue, one after the other. `asked` and `got` are in order."""

    slots: int
    stopped: bool = False
    asked: list[str] = field(default_factory=list)
    got: list[str] = field(default_factory=list)
    threads: list[threading.Thread] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.queue = FairQueue(lambda: self.slots, stopped=lambda: self.stopped)

    def ask(self, table: str, *, hold: threading.Event) -> None:
        """Ask in a new thread, and wait until it has a slot or is in the queue."""
        before = len(self.queue._waiting) + len(self.got)
        thread = threading.Thread(target=self._hold, args=(table, hold))
        self.threads.append(thread)
        thread.start()
        self.until(lambda: len(self.queue._waiting) + len(self.got) > before)

    def _hold(self, table: str, hold: threading.Event) -> None:
        with self.queue.slot() as granted:
            if granted:
                self.got.append(table)
                hold.wait(WAIT_SECONDS)

    @staticmethod
    def until(reached: object) -> None:
        deadline = time.monotonic() + WAIT_SECONDS
        while not reached():  # type: ignore[operator]
            assert time.monotonic() < deadline
            time.sleep(0.001)

    def end(self) -> None:
        for thread in self.threads:
            thread.join(WAIT_SECONDS)
            assert not thread.is_alive()


def test_slots_are_given_in_the_order_in_which_they_were_asked_for() -> None:
    tables, first, done = Tables(slots=1), threading.Event(), threading.Event()
    done.set()
    tables.ask("a", hold=first)
    for name in "bcdefgh":
        tables.ask(name, hold=done)

    first.set()
    tables.end()

    assert "".join(tables.got) == "abcdefgh"


def test_a_table_that_asks_again_goes_to_the_back_of_the_queue() -> None:
    queue, order = FairQueue(lambda: 1, stopped=lambda: False), list[str]()
    all_ask = threading.Barrier(3)

    def batches(table: str) -> None:
        with queue.slot():
            order.append(table)
            if len(order) == 1:
                all_ask.wait(WAIT_SECONDS)
                Tables.until(lambda: len(queue._waiting) == 2)
        for _ in range(9):
            with queue.slot():
                order.append(table)
                Tables.until(lambda: len(queue._waiting) == 2 or len(order) > 24)

    def waits(table: str) -> None:
        all_ask.wait(WAIT_SECONDS)
        for _ in range(10):
            with queue.slot():
                order.append(table)
                Tables.until(lambda: len(queue._waiting) == 2 or len(order) > 24)

    threads = [threading.Thread(target=batches, args="a")]
    threads += [threading.Thread(target=waits, args=name) for name in "bc"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT_SECONDS)

    rounds = ["".join(order[n : n + 3]) for n in range(0, 24, 3)]
    assert [sorted(each) for each in rounds] == [["a", "b", "c"]] * 8


def test_no_more_slots_are_taken_than_there_are() -> None:
    tables, hold = Tables(slots=3), threading.Event()
    for name in "abcde":
        tables.ask(name, hold=hold)

    assert "".join(tables.got) == "abc"

    hold.set()
    tables.end()
    assert sorted(tables.got) == list("abcde")


def test_waiting_tables_get_slots_when_the_cluster_grows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("frazil.materialize.scheduling.fair_queue.LOOK_SECONDS", 0.01)
    tables, hold = Tables(slots=1), threading.Event()
    for name in "abc":
        tables.ask(name, hold=hold)

    tables.slots = 3

    tables.until(lambda: tables.got == ["a", "b", "c"])
    hold.set()
    tables.end()


def test_tables_in_the_queue_leave_it_when_the_run_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("frazil.materialize.scheduling.fair_queue.LOOK_SECONDS", 0.01)
    tables, hold = Tables(slots=1), threading.Event()
    for name in "abc":
        tables.ask(name, hold=hold)

    tables.stopped = True

    tables.until(lambda: not tables.queue._waiting)
    hold.set()
    tables.end()
    assert tables.got == ["a"]


def test_a_failed_batch_gives_its_slot_back() -> None:
    queue = FairQueue(lambda: 1, stopped=lambda: False)
    with pytest.raises(ZeroDivisionError), queue.slot():
        raise ZeroDivisionError

    with queue.slot() as granted:
        assert granted


@pytest.mark.parametrize(("cores", "slots"), [(1, LEAST), (2, LEAST), (3, 6), (12, 24), (1_000, MOST)])
def test_the_number_of_slots_follows_from_the_cores(cores: int, slots: int) -> None:
    assert in_flight(cores) == slots
