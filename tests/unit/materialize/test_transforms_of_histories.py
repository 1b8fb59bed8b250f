"""Transformations that follow a table with `write: history`, held against a model of its versions in plain Python."""

from __future__ import annotations

import random
from itertools import count
from pathlib import Path

import pytest
from test_whole_histories import History

from frazil.adapters.iceberg.lake import IcebergLake
from frazil.adapters.iceberg.rebuild_lake import RebuildLake
from frazil.adapters.iceberg.scan import TableScan
from frazil.model.settings import CatalogSettings
from frazil.transforms.rebuild import Rebuild
from frazil.transforms.run import Transformation
from frazil.transforms.verify import verify
from tests.sampling import examples
from tests.table.transformed_orders import DuckQueries, spec_of


class Followed:
    """A history, and two transformations that count the versions of each key, and its valid ones."""

    def __init__(self, folder: Path) -> None:
        self.history = History.at(folder)
        lake, ids = IcebergLake(CatalogSettings("jdbc", str(folder))), count()
        self.lake = lake
        table, source = self.history.spec.table, self.history.spec.identifier
        sql = f"SELECT kafka_key, count(*) AS orders FROM {table} {{}} GROUP BY kafka_key"
        self.made = [
            Transformation(
                spec_of(sql.format(where), name=name, source=source, source_changes=True),
                lake,
                lambda: DuckQueries(lake),
                new_id=lambda: f"w{next(ids)}",
            )
            for name, where in (("versions", ""), ("valid", "WHERE is_current"))
        ]

    def run(self) -> None:
        for each in self.made:
            each.batch()

    def check(self) -> None:
        versions = self.history.versions
        expected = [
            {key: len(found) for key, found in versions.items() if found},
            {key: 1 for key, found in versions.items() if found and found[-1][2] is None},
        ]
        assert [self._stored(each) for each in self.made] == expected

    def _stored(self, made: Transformation) -> dict[str, int]:
        view = self.lake.load(made.spec.identifier)
        assert view is not None
        rows = [row for batch in TableScan(view, columns=["*"]).batches() for row in batch.to_pylist()]
        assert len(rows) == len({row["kafka_key"] for row in rows})
        return {row["kafka_key"]: row["orders"] for row in rows}


@pytest.mark.parametrize("seed", range(examples(1, 40)))
def test_groups_follow_the_versions_of_a_history(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    followed = Followed(tmp_path)
    followed.history.sent_at(("a", 1, 0), ("b", 1, 0))
    for number in range(3):
        for _ in range(chance.randrange(1, 3)):
            followed.history.sent_at(
                *(
                    (
                        chance.choice("abcd"),
                        chance.choice((None, 1, 2)),
                        chance.randrange(10 * number, 10 * number + 10),
                    )
                    for _ in range(chance.randrange(1, 6))
                )
            )
            followed.history.catch_up()
        followed.run()
        followed.check()

    for each in followed.made:
        assert verify(each).clean
        Rebuild(each, RebuildLake(followed.lake, [each.spec.identifier])).perform()
    followed.check()
    followed.history.sent_at(("a", 3, 90), ("b", None, 91))
    followed.history.catch_up()
    followed.run()
    followed.check()
