"""Connections that `frazil doctor` tests."""

from __future__ import annotations

from frazil.adapters.network import Address
from frazil.doctor.asking import Asking
from frazil.doctor.ways import ways
from frazil.model.settings import NOT_RUNNING_HOST


def test_local_services_that_do_not_run_are_named_and_not_looked_up() -> None:
    (found,) = ways(Asking("broker", 1.0), [Address(NOT_RUNNING_HOST, 9092)], None)

    assert (found.verdict, found.what) == ("failed", "local service")
    assert "is not running" in found.found
    assert found.hint.startswith("run `frazil local up`")
