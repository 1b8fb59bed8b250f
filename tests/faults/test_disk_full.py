"""A full disk: whichever file a driver cannot write, the table stays as it was, and continues once there is space.

There is no small disk that every machine can make. Instead no file may grow beyond a few bytes, by the system's own
limit on the size of files, which every process may lower: files are cut short as on a full disk, under another number.
"""

from __future__ import annotations

import resource
from collections.abc import Iterator

import pytest

from frazil.materialize.scheduling.schedule import Stopping, run_once
from frazil.model.errors import CatalogError
from tests.faults.moments import Moment, at
from tests.faults.world import World, assert_exactly_once
from tests.faults.write_modes import in_every_mode

ROOM_BYTES = 200


@pytest.fixture
def limited() -> Iterator[None]:
    """The limit is a whole process's: it is gone when the test is, however it ends."""
    yield
    make_room()


def no_room() -> None:
    _, most = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (ROOM_BYTES, most))


def make_room() -> None:
    _, most = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))


class WaitsForRoom(Stopping):
    """Free the disk whenever the driver waits for a service, and count the waits."""

    slept = 0

    def sleep(self, seconds: float) -> bool:
        del seconds
        self.slept += 1
        make_room()
        return False


@pytest.mark.parametrize("moment", [("before", "prepare"), ("before", "stage")], ids=" ".join)
@pytest.mark.usefixtures("limited")
def test_a_run_that_cannot_write_manifests_waits_for_room_and_goes_on(local_world: World, moment: Moment) -> None:
    local_world.produce(6)
    local_world.catch_up()
    local_world.produce(6)
    stopping = WaitsForRoom()

    (report,) = run_once([local_world.run(at(moment, no_room))], stopping)

    assert (report.failure, report.batches, stopping.slept) == (None, 1, 1)
    assert_exactly_once(local_world)


@in_every_mode
@pytest.mark.parametrize("moment", [("before", "publish"), ("before", "reveal")], ids=" ".join)
@pytest.mark.usefixtures("limited")
def test_a_run_that_cannot_write_the_metadata_of_a_commit_says_so_and_the_next_one_goes_on(
    local_world: World, moment: Moment
) -> None:
    local_world.produce(6)
    local_world.catch_up()
    local_world.produce(6)

    with pytest.raises(CatalogError, match=r"could not (publish|reveal).* after 5 attempts.*File too large"):
        local_world.run(at(moment, no_room)).batch()

    make_room()
    local_world.catch_up()
    assert_exactly_once(local_world)
