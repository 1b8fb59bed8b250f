"""The statements of Flink mean what the transformation means, and the job does not write their topic."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from frazil.model.errors import SettingError
from frazil.specs.load import load_tables, load_transforms
from infra.settings.model import ConfluentKafka, Flink
from infra.wanted.flink import CREATE_TOTALS, FILL_TOTALS, refuse_other_writers
from infra.wanted.topics import TOTALS, TRADES, wanted_topics

ROOT = Path(__file__).parents[3]
CONFLUENT = ConfluentKafka("us-east-1", "SINGLE_ZONE", "ESSENTIALS", datagen=True, tableflow=())


def plain(sql: str) -> str:
    """SQL in lower case, without quotes and without spaces that mean nothing."""
    return re.sub(r"\s*([(),*])\s*", r"\1", " ".join(sql.replace("`", "").lower().split()))


def test_the_query_is_that_of_the_transformation() -> None:
    tables = load_tables(ROOT / "tables", {}, database="lake", catalog_type="glue")
    transforms = load_transforms(ROOT / "transforms", {}, database="lake", tables=tables)
    (totals,) = (each for each in transforms if each.table == TOTALS)

    insert, query = plain(FILL_TOTALS).split(" ", 3)[:3], plain(FILL_TOTALS).split(" ", 3)[3]

    assert insert == ["insert", "into", TOTALS]
    assert query.replace("$rowtime", "kafka_timestamp") == plain(totals.sql)
    assert f" from {TRADES} " in query


def test_the_table_has_the_columns_of_the_query_and_its_groups_as_key() -> None:
    columns = re.findall(r"^  `(\w+)` ", CREATE_TOTALS, re.MULTILINE)
    (key,) = re.findall(r"PRIMARY KEY \((.*)\) NOT ENFORCED", CREATE_TOTALS)

    assert CREATE_TOTALS.startswith(f"CREATE TABLE IF NOT EXISTS `{TOTALS}` (")
    assert columns == ["traded_at", "userid", "side", "symbol", "total", "trades"]
    assert key == "`traded_at`, `userid`, `side`, `symbol`"


@pytest.mark.parametrize("text", [CREATE_TOTALS, FILL_TOTALS])
def test_terraform_sends_the_statements_as_they_are(text: str) -> None:
    """A difference from what Confluent's API returns would replace the statement in each `create`."""
    assert text == text.strip()
    assert "${" not in text
    assert "%{" not in text


def test_flink_makes_its_topic_itself(tmp_path: Path) -> None:
    (tmp_path / "totals.yaml").write_text(f"topic: {TOTALS}")
    tables = load_tables(tmp_path, {}, database="lake", catalog_type="glue")

    assert wanted_topics(CONFLUENT, tables).keys() == {TRADES, TOTALS}
    for pool, made in ((Flink(5, statements=False), {TRADES, TOTALS}), (Flink(5, statements=True), {TRADES})):
        assert wanted_topics(replace(CONFLUENT, flink=pool), tables).keys() == made


def test_a_second_writer_of_the_topic_is_refused() -> None:
    refuse_other_writers(("orders.clean",))

    with pytest.raises(SettingError, match="both write the topic stock_total_trades"):
        refuse_other_writers(("orders.clean", TOTALS))
