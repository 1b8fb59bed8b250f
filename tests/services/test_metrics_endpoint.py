"""The endpoint of `frazil materialize --metrics-port`, asked over a real socket."""

from __future__ import annotations

import http.client
import socket
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from frazil.model.errors import CatalogError, SettingError
from frazil.model.progress import Counts
from frazil.model.receipt import Receipt
from frazil.monitoring.endpoint import Endpoint, Kept
from frazil.monitoring.process_metrics import ProcessMetrics
from frazil.monitoring.prometheus import exposition


class Source:
    """What the endpoint answers; `fails` is raised instead."""

    def __init__(self) -> None:
        self.asked = 0
        self.fails: CatalogError | None = None

    def metrics(self) -> str:
        self.asked += 1
        if self.fails is not None:
            raise self.fails
        return "frazil_rows 1\n"


@pytest.fixture
def source() -> Source:
    return Source()


@pytest.fixture
def endpoint(source: Source) -> Iterator[Endpoint]:
    made = Endpoint(0, metrics=source.metrics, page=lambda: "<!DOCTYPE html><p>é")
    yield made
    made.stop()


def ask(endpoint: Endpoint, path: str, *, method: str = "GET", host: str | None = None) -> tuple[int, str, str]:
    connection = http.client.HTTPConnection(endpoint.address.removeprefix("http://"), timeout=10)
    try:
        connection.request(method, path, headers={} if host is None else {"Host": host})
        answer = connection.getresponse()
        return answer.status, answer.getheader("Content-Type", ""), answer.read().decode()
    finally:
        connection.close()


def test_metrics_and_the_page_are_answered_with_their_types(endpoint: Endpoint) -> None:
    assert ask(endpoint, "/metrics") == (200, "text/plain; version=0.0.4; charset=utf-8", "frazil_rows 1\n")
    assert ask(endpoint, "/?now") == (200, "text/html; charset=utf-8", "<!DOCTYPE html><p>é")
    assert ask(endpoint, "/metrics", method="HEAD")[2] == ""


def test_scrapes_at_the_same_time_look_at_the_tables_once(endpoint: Endpoint, source: Source) -> None:
    for _ in range(5):
        ask(endpoint, "/metrics")

    assert source.asked == 1


def test_an_answer_is_made_again_after_its_time() -> None:
    now, made = [0.0], iter("abc")
    kept = Kept(lambda: next(made), "", clock=lambda: now[0])

    answers = []
    for now[0] in (0.0, 9.9, 10.0, 20.1):
        answers.append(kept.text())

    assert answers == ["a", "a", "b", "c"]


def test_a_catalog_that_does_not_answer_is_503_and_asked_again(endpoint: Endpoint, source: Source) -> None:
    source.fails = CatalogError("the catalog does not answer", hint="wait")
    assert ask(endpoint, "/metrics")[0] == 503
    assert ask(endpoint, "/metrics")[2] == "the catalog does not answer\n"

    source.fails = None
    assert ask(endpoint, "/metrics")[0] == 200


@pytest.mark.parametrize(
    ("path", "method", "host", "status"),
    [
        ("/other", "GET", None, 404),
        ("/../etc/passwd", "GET", None, 404),
        ("/metrics", "POST", None, 501),
        ("/metrics", "GET", "evil.example", 403),
        ("/metrics", "GET", "localhost:1", 200),
    ],
)
def test_other_requests_are_refused(endpoint: Endpoint, path: str, method: str, host: str | None, status: int) -> None:
    assert ask(endpoint, path, method=method, host=host)[0] == status


def test_only_this_machine_is_listened_to(endpoint: Endpoint) -> None:
    assert endpoint.address.startswith("http://127.0.0.1:")


def test_a_port_in_use_is_a_setting_error() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]

        with pytest.raises(SettingError, match=f"cannot listen on 127.0.0.1:{port}"):
            Endpoint(port, metrics=str, page=str)


def test_batches_of_the_process_are_counted_with_the_time_of_their_steps() -> None:
    counted = ProcessMetrics(version="1.2", started=datetime(2026, 1, 31, tzinfo=UTC))
    for _ in range(2):
        counted.count(receipt(seconds={"ingest": 1.5, "publish": 0.25}))

    lines = exposition(counted.metrics()).splitlines()

    assert [line for line in lines if not line.startswith("#")] == [
        'frazil_build_info{version="1.2"} 1',
        "frazil_process_start_time_seconds 1769817600",
        'frazil_process_batches_total{table="lake.orders"} 2',
        'frazil_process_step_seconds_total{table="lake.orders",step="ingest"} 3',
        'frazil_process_step_seconds_total{table="lake.orders",step="publish"} 0.5',
    ]


def receipt(seconds: dict[str, float]) -> Receipt:
    return Receipt(
        table="lake.orders",
        epoch=1,
        batch_id="b",
        ranges=(),
        counts=Counts(),
        skipped_by_reason={},
        dead_letters_by_reason={},
        payload_bytes=0,
        file_bytes=0,
        files=0,
        truncated_nanos=0,
        complete_through=None,
        seconds=seconds,
    )
