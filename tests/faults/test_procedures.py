"""Iceberg's own maintenance, as others run it, between any two steps of a batch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

import pytest

from frazil.adapters.iceberg.lake import CATALOG_NAME
from frazil.local.supervisor import LocalServices
from frazil.materialize.outcome import Again, Published
from frazil.model.settings import CatalogSettings
from frazil.model.spec import WriteMode
from tests.faults.moments import BOUNDARIES, Moment, at
from tests.faults.procedures import Procedures, procedures
from tests.faults.rest import rest_catalog
from tests.faults.world import (
    World,
    assert_exactly_once,
    glue_catalog,
    jdbc_catalog,
    new_world,
    with_mode,
    with_trigger,
)
from tests.faults.write_modes import MODES
from tests.sampling import LONG, sampled

NAMES = (CATALOG_NAME, "on_glue", *(("on_rest",) if LONG else ()))
"""The catalogs, by the name that Spark gives them."""

MAINTAINED_AT = {
    CATALOG_NAME: sampled(BOUNDARIES, keep=lambda moment: moment[1] in ("ingest", "stage", "publish", "reveal")),
    "on_glue": sampled(BOUNDARIES, keep=lambda moment: moment[1] in ("stage", "publish")),
    "on_rest": BOUNDARIES,
}
ROLLED_BACK = sampled(
    product(NAMES, [("after", "ingest"), ("before", "publish"), ("before", "reveal")], MODES),
    keep=lambda case: (
        case[1:] == (("before", "publish"), "append") or (case[0] == CATALOG_NAME and case[2] == "append")
    ),
)
MAINTAINED = sampled(product(NAMES, MODES), keep=lambda case: case[1] == "append" or case[0] == CATALOG_NAME)
WITH_PREPARED = [("before", "stage"), ("before", "publish"), ("before", "reveal"), ("before", "announce")]


@dataclass(frozen=True, slots=True)
class Maintained:
    """A catalog that this process and a Spark both work on."""

    services: LocalServices
    spark: Procedures
    name: str
    catalog: CatalogSettings

    def world(self, write: WriteMode = "append") -> World:
        return with_mode(with_trigger(new_world(self.services, self.catalog), rows=6), write)

    def compact_and_expire(self, *tables: str) -> None:
        for table in tables:
            self.spark.compact(self.name, table)
            self.spark.expire(self.name, table)


@pytest.fixture(scope="module")
def catalogs(
    request: pytest.FixtureRequest, services: LocalServices, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, CatalogSettings]:
    found = {CATALOG_NAME: jdbc_catalog(tmp_path_factory.mktemp("maintained")), "on_glue": glue_catalog(services)}
    return found | ({"on_rest": rest_catalog(request.getfixturevalue("rest_catalog_url"))} if LONG else {})


@pytest.fixture(scope="module")
def spark(catalogs: dict[str, CatalogSettings], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Procedures]:
    with procedures(tmp_path_factory.mktemp("procedures"), catalogs) as running:
        yield running


@pytest.fixture(params=NAMES)
def maintained(
    request: pytest.FixtureRequest, services: LocalServices, spark: Procedures, catalogs: dict[str, CatalogSettings]
) -> Maintained:
    return Maintained(services, spark, request.param, catalogs[request.param])


@pytest.mark.parametrize(("maintained", "write"), MAINTAINED, indirect=["maintained"])
def test_compaction_and_expiry_with_the_youngest_cutoff_between_any_two_steps(
    maintained: Maintained, write: WriteMode
) -> None:
    world = maintained.world(write)
    spec = world.spec
    world.produce(4)
    world.catch_up()

    for moment in MAINTAINED_AT[maintained.name] if LONG or write == "append" else [("before", "publish")]:
        world.produce(4)
        tables = [spec.identifier, *([spec.dead_letters_identifier] if moment in WITH_PREPARED else [])]
        run = world.run(at(moment, lambda tables=tuple(tables): maintained.compact_and_expire(*tables)))
        assert isinstance(run.batch(), Published), moment
        world.catch_up(run)

    assert_exactly_once(world)


@pytest.mark.parametrize(("maintained", "moment", "write"), ROLLED_BACK, indirect=["maintained"])
def test_rollback_to_snapshot_takes_the_offsets_with_it(
    maintained: Maintained, moment: Moment, write: WriteMode
) -> None:
    world = maintained.world(write)
    world.produce(12)
    world.catch_up()

    def roll_back() -> None:
        before = world.standing().carrier.parent_id
        assert before is not None
        maintained.spark.roll_back(maintained.name, world.spec.identifier, before)

    world.produce(6)
    run = world.run(at(moment, roll_back))

    assert isinstance(run.batch(), Published | Again)
    world.catch_up(run)
    assert_exactly_once(world)


@pytest.mark.parametrize("maintained", sampled(NAMES, keep=CATALOG_NAME.__eq__), indirect=True)
def test_users_sql_in_between_is_kept_and_named(maintained: Maintained) -> None:
    world = maintained.world()
    world.produce(6)
    world.catch_up()
    world.produce(6)
    table = f"{maintained.name}.{world.spec.identifier}"

    def change() -> None:
        number = min(world.rows.values())
        maintained.spark.sql(f"INSERT INTO {table} (n) VALUES (1000000)")
        maintained.spark.sql(f"DELETE FROM {table} WHERE n = {number}")
        maintained.spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('user.said' = 'so')")
        world.inserted.append(1000000)
        world.deleted.add(number)

    run = world.run(at(("after", "stage"), change))

    assert isinstance(run.batch(), Published)
    assert world.table().properties["user.said"] == "so"
    assert_exactly_once(world)
