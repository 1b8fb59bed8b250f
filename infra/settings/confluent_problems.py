"""What no single key of `kafka.confluent` shows: settings that exclude or need each other."""

from __future__ import annotations

from collections.abc import Iterator

from frazil.specs.keys import Values
from frazil.specs.problems import Problem
from infra.settings import keys
from infra.settings.flink_keys import FLINK
from infra.wanted.topics import TOTALS, TRADES


def confluent_problems(confluent: Values, region: str, lake: Values) -> Iterator[Problem]:
    """Yield the problems of a cluster in Confluent Cloud; `region` is the environment's."""
    yield from _tableflow_problems(confluent, region, lake)
    yield from _flink_problems(confluent)


def _flink_problems(confluent: Values) -> Iterator[Problem]:
    flink = confluent.get(FLINK)
    if flink is None or not flink.statements:
        return
    if not confluent[keys.DATAGEN]:
        what = f"Flink's statements need the topic {TRADES}, but datagen is false"
        yield Problem(confluent.place_of(FLINK), what, "set datagen: true, or flink: {statements: false}")
    if TOTALS in confluent[keys.TOPICS]:
        what = f"Flink's statements create the topic {TOTALS}, with its schema"
        yield Problem(confluent.place_of(keys.TOPICS), what, "remove it, or set flink: {statements: false}")


def _tableflow_problems(confluent: Values, region: str, lake: Values) -> Iterator[Problem]:
    if not confluent[keys.TABLEFLOW]:
        return
    place = confluent.place_of(keys.TABLEFLOW)
    if TRADES in confluent[keys.TABLEFLOW] and not confluent[keys.DATAGEN]:
        yield Problem(place, "Tableflow needs the topic stock_trades, but datagen is false", "set datagen: true")
    if (confluent.get(keys.CONFLUENT_REGION) or region) != region:
        yield Problem(place, "Tableflow needs the bucket and the cluster in one region", "remove `region`")
    if lake[keys.LAKE_FORMATION]:
        what = "Tableflow is not supported with lake_formation: true, because its role gets no Lake Formation grants"
        yield Problem(place, what, "remove `tableflow`, or set lake: {lake_formation: false}")
