"""An erasure in a table of a catalog with Iceberg's REST API."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime
from itertools import count
from pathlib import Path

import pytest

from frazil.adapters.iceberg.dropped_table import metadata_files
from frazil.adapters.iceberg.sought_value import sought_in
from frazil.forget.perform import Erased, Erasure
from frazil.materialize.pause.pausing import pause_of
from frazil.materialize.state import standing
from frazil.model.errors import CatalogError, ErasureError
from frazil.model.settings import CatalogSettings
from frazil.recover import recover
from frazil.verify.table import verify_table
from tests.faults.rest import rest_catalog
from tests.table.small_lake import Read, SmallLake, spec_of

NOW = datetime(2026, 2, 1, tzinfo=UTC)
_NUMBERS = count()


@pytest.fixture
def settings(rest_catalog_url: str) -> CatalogSettings:
    return rest_catalog(rest_catalog_url)


@pytest.fixture
def rest_lake(settings: CatalogSettings, tmp_path: Path) -> SmallLake:
    spec = spec_of("orders", database=f"rest_{uuid.uuid4().hex[:12]}")
    lake = SmallLake(tmp_path, spec, catalog=settings)
    lake.batch(Read("orders", 0, 0, 60, dead=(10, 21)), Read("orders", 1, 0, 50))
    lake.batch(Read("orders", 0, 60, 100))
    return lake


def erasure(lake: SmallLake, text: str) -> Erasure:
    sought = sought_in(lake.view, "kafka_key", text)
    return Erasure(lake.lake, lake.spec, sought, "tester", lambda: NOW, lambda: f"e{next(_NUMBERS)}")


def erase(lake: SmallLake, text: str) -> Erased:
    done = erasure(lake, text).perform()
    lake.state = standing(lake.view, pipeline=lake.spec.pipeline).state
    return done


def test_rows_and_dead_letters_are_erased_and_batches_go_on(rest_lake: SmallLake) -> None:
    done = erase(rest_lake, "21")

    assert (done.rows, done.dead_letters, done.is_complete) == (1, 1, True)
    assert done.snapshots and done.files
    assert pause_of(rest_lake.view.properties) is None
    rest_lake.batch(Read("orders", 0, 100, 110))
    assert verify_table(rest_lake.lake, rest_lake.spec).findings == ()


def test_a_tag_that_is_set_meanwhile_stays(rest_lake: SmallLake) -> None:
    head = rest_lake.view.head
    assert head is not None
    run = erasure(rest_lake, "99")
    run.step = lambda name: (
        rest_lake.table.manage_snapshots().create_tag(head, "audit").commit() if name == "rows" else None
    )

    assert not run.perform().is_complete

    assert rest_lake.view.tags["audit"] == head
    with pytest.raises(ErasureError, match="audit"):
        erase(rest_lake, "99")


def test_a_state_with_erased_rows_cannot_be_recovered_and_the_newest_can(
    rest_lake: SmallLake, settings: CatalogSettings
) -> None:
    before = rest_lake.table.metadata_location
    erase(rest_lake, "99")
    newest, spec = rest_lake.table.metadata_location, rest_lake.spec
    rest_lake.lake.catalog.drop_table(spec.identifier)
    rest_lake.restart()

    with pytest.raises(CatalogError, match="cannot be used"):
        recover(settings, spec, metadata=before)
    recover(settings, spec, metadata=newest)

    assert len(metadata_files(settings, newest.rpartition("/metadata/")[0])) > 1
    assert erase(rest_lake, "99").is_complete
    assert verify_table(rest_lake.lake, spec).findings == ()
