"""What tests on the real services begin with."""

from __future__ import annotations

from pathlib import Path

import pytest
from breadth import Place

from frazil.local.supervisor import LocalServices
from tests.reader_paths import kafka_reader, pytest_generate_tests

__all__ = ["kafka_reader", "pytest_generate_tests"]


@pytest.fixture
def place(services: LocalServices, tmp_path: Path) -> Place:
    """A folder of its own for a configuration and an embedded catalog."""
    return Place(services, tmp_path)
