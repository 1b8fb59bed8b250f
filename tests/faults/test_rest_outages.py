"""The server of a REST catalog is gone in the middle of a batch, behind a front that says so."""

from __future__ import annotations

import pytest

from frazil.local.supervisor import LocalServices
from frazil.model.errors import CatalogError
from frazil.model.spec import WriteMode
from tests.fakes.served_front import Meddling, port_behind, served_front, tokens_for_the_client
from tests.faults.moments import Moment, at
from tests.faults.rest import rest_catalog
from tests.faults.world import assert_exactly_once, new_world, with_mode, with_trigger
from tests.faults.write_modes import in_every_mode

NOWHERE = 1
"""A port on which nothing listens."""
MOMENTS: list[Moment] = [("before", "plan"), ("before", "stage"), ("before", "publish")]


@in_every_mode
def test_a_catalog_that_is_gone_for_a_while_costs_and_doubles_no_record(
    services: LocalServices, rest_catalog_url: str, write: WriteMode
) -> None:
    del rest_catalog_url
    front = Meddling(tokens_for_the_client(), port_behind())

    def leave() -> None:
        front.server_port = NOWHERE

    with served_front(front) as url:
        world = with_mode(with_trigger(new_world(services, rest_catalog(url)), rows=6), write)
        world.produce(6)
        world.catch_up()
        for moment in MOMENTS:
            world.produce(6)
            with pytest.raises(CatalogError, match="ServiceUnavailable") as gone:
                world.run(at(moment, leave)).batch()
            assert gone.value.worth_retrying
            front.server_port = port_behind()
            world.catch_up()

        assert_exactly_once(world)
