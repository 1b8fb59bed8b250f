"""What other engines did to the columns and files of a table is named, and not taken for lost rows."""

from __future__ import annotations

from frazil.materialize.state import standing
from frazil.verify.against_kafka import lacking_metadata
from frazil.verify.verification import FindingKind
from tests.table.small_lake import SmallLake


def test_a_metadata_column_that_was_dropped_is_named(lake: SmallLake) -> None:
    def lacking() -> list[tuple[FindingKind, str]]:
        here = standing(lake.view, pipeline=lake.spec.pipeline)
        return [(each.kind, each.what.partition(",")[0]) for each in lacking_metadata(lake.spec, here)]

    assert lacking() == []
    with lake.table.update_schema(allow_incompatible_changes=True) as update:
        update.delete_column("kafka_key").delete_column("kafka_timestamp")
    assert lacking() == [
        (FindingKind.NO_COLUMN, "the table has no column kafka_timestamp"),
        (FindingKind.NO_COLUMN, "the table has no column kafka_key"),
    ]
