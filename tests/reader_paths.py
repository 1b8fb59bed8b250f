"""Tests that run with both Kafka readers: with the default one, and with the one in Python."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest

from frazil.adapters.kafka import reader
from frazil.adapters.kafka.batch_consumer import why_not_native
from frazil.adapters.spark import worker
from tests.sampling import LONG

WITHOUT_NATIVE = Path(__file__).parents[1] / "bench" / "without_native"
"""A module in place of the native one, which cannot be imported."""

Test = TypeVar("Test", bound=Callable[..., None])
_on_both: set[object] = set()


def on_both_readers(test: Test) -> Test:
    """Run this test with both readers in `make test` as well; `make test-long` does so with every test of a fault."""
    _on_both.add(test)
    return test


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    readers = readers_of(metafunc)
    if len(readers) > 1:
        metafunc.parametrize("kafka_reader", readers, indirect=True)


def readers_of(metafunc: pytest.Metafunc) -> list[str]:
    """Return the readers to run a test with."""
    both = metafunc.function in _on_both or (LONG and metafunc.definition.path.parent.name == "faults")
    return ["native", "python"] if both and why_not_native() is None else ["native"]


@pytest.fixture(autouse=True)
def kafka_reader(request: pytest.FixtureRequest) -> Iterator[None]:
    """Let this process, and those that it starts, read with the requested reader."""
    if getattr(request, "param", "native") == "native":
        yield
        return
    paths = os.pathsep.join(filter(None, (str(WITHOUT_NATIVE), os.environ.get("PYTHONPATH"))))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", paths)
        patch.setattr(reader, "why_not_native", lambda: "this test reads in Python")
        patch.setattr(reader.BatchConsumer, "start", _never)
        worker._close_all(worker._readers)  # a reader is kept for later tasks
        yield
        worker._close_all(worker._readers)


def _never(*_: Any) -> None:
    raise AssertionError("the native reader was started")
