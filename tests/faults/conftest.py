"""The catalogs that the faults are tried on."""

from __future__ import annotations

from pathlib import Path

import pytest

from frazil.local.supervisor import LocalServices
from frazil.model.settings import CatalogSettings

pytest.register_assert_rewrite("tests.faults.world", "tests.faults.stepped", "tests.faults.delta_side")

from tests.faults.rest import rest_catalog  # noqa: E402
from tests.faults.world import World, glue_catalog, jdbc_catalog, new_world, with_trigger  # noqa: E402
from tests.reader_paths import kafka_reader, pytest_generate_tests  # noqa: E402
from tests.sampling import CATALOGS, sampled  # noqa: E402

__all__ = ["kafka_reader", "pytest_generate_tests"]


@pytest.fixture(params=sampled(CATALOGS, keep="jdbc".__eq__))
def catalog(request: pytest.FixtureRequest, services: LocalServices, tmp_path: Path) -> CatalogSettings:
    match request.param:
        case "rest":
            return rest_catalog(request.getfixturevalue("rest_catalog_url"))
        case "glue":
            return glue_catalog(services)
        case _:
            return jdbc_catalog(tmp_path / "warehouse")


@pytest.fixture
def world(services: LocalServices, catalog: CatalogSettings) -> World:
    """Two partitions, nothing produced yet, no table; batches of at most six records."""
    return with_trigger(new_world(services, catalog), rows=6)


@pytest.fixture
def local_world(services: LocalServices, tmp_path: Path) -> World:
    """As `world`, on the embedded catalog only."""
    return with_trigger(new_world(services, jdbc_catalog(tmp_path / "warehouse")), rows=6)
