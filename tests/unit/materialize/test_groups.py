"""Batches of a group of tables: one read, one batch id, and what a crash or another tool leaves behind."""

from __future__ import annotations

from pathlib import Path

import pytest
from grouped_tables import GroupWorld


@pytest.fixture
def world(tmp_path: Path) -> GroupWorld:
    return GroupWorld.at(tmp_path)


def test_each_record_is_in_the_table_that_takes_it_and_all_states_agree(world: GroupWorld) -> None:
    world.send("order", "refund", "order", "other", "refund", "order", "order", "other")

    published = world.catch_up()

    assert len(published) == 2
    world.assert_exactly_once()
    assert world.stands("orders").carrier.summary["frazil.pipeline"] == "lake.events"
