"""The catalogs and the write modes that the faults are tried on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from frazil.local.supervisor import LocalServices
from frazil.model.settings import CatalogSettings

pytest.register_assert_rewrite("tests.faults.world", "tests.faults.stepped", "tests.faults.delta_side")

from frazil.model.spec import WriteMode  # noqa: E402
from tests.faults.own_groups import OwnGroups  # noqa: E402
from tests.faults.rest import rest_catalog  # noqa: E402
from tests.faults.world import World, glue_catalog, jdbc_catalog, new_world, with_mode, with_trigger  # noqa: E402
from tests.faults.write_modes import modes_of  # noqa: E402
from tests.reader_paths import kafka_reader, readers_of  # noqa: E402
from tests.sampling import CATALOGS, sampled  # noqa: E402

__all__ = ["kafka_reader"]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test with the default reader in each write mode, and with the other reader in the first one."""
    readers, modes = readers_of(metafunc), modes_of(metafunc)
    if len(modes) == 1 and len(readers) > 1:
        metafunc.parametrize("kafka_reader", readers, indirect=True)
    elif len(modes) > 1:
        cases = [(readers[0], mode) for mode in modes] + [(reader, modes[0]) for reader in readers[1:]]
        metafunc.parametrize(("kafka_reader", "write"), cases, indirect=True)


@pytest.fixture
def write(request: pytest.FixtureRequest) -> WriteMode:
    """The mode of the table of `world` and of `local_world`."""
    return getattr(request, "param", "append")  # type: ignore[no-any-return]


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
def world(services: LocalServices, catalog: CatalogSettings, write: WriteMode) -> World:
    """Two partitions, nothing produced yet, no table; batches of at most six records."""
    return with_mode(with_trigger(new_world(services, catalog), rows=6), write)


@pytest.fixture
def local_world(services: LocalServices, tmp_path: Path, write: WriteMode) -> World:
    """As `world`, on the embedded catalog only."""
    return with_mode(with_trigger(new_world(services, jdbc_catalog(tmp_path / "warehouse")), rows=6), write)


@pytest.fixture
def own_groups(tmp_path: Path) -> Iterator[OwnGroups]:
    groups = OwnGroups(tmp_path / "driver.log")
    yield groups
    groups.kill()
