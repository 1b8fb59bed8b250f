"""The statements that keep totals of stock trades in Confluent's Flink, with the meaning of
transforms/stock_total_trades.yaml."""

from __future__ import annotations

from collections.abc import Iterable

from frazil.model.errors import SettingError
from infra.wanted.topics import TOTALS

CREATE_TOTALS = """\
CREATE TABLE IF NOT EXISTS `stock_total_trades` (
  `traded_at` TIMESTAMP_LTZ(3) NOT NULL,
  `userid` STRING NOT NULL,
  `side` STRING NOT NULL,
  `symbol` STRING NOT NULL,
  `total` DECIMAL(38, 4),
  `trades` BIGINT NOT NULL,
  PRIMARY KEY (`traded_at`, `userid`, `side`, `symbol`) NOT ENFORCED
) WITH (
  'changelog.mode' = 'upsert',
  'kafka.cleanup-policy' = 'compact',
  'value.fields-include' = 'all'
)"""
"""One record per group: the key is the group, and a value has all columns, so that readers need no key."""

FILL_TOTALS = """\
INSERT INTO `stock_total_trades`
SELECT
  `$rowtime` AS `traded_at`,
  `userid`,
  `side`,
  `symbol`,
  SUM(CAST(`price` AS DECIMAL(18, 4)) * `quantity`) AS `total`,
  COUNT(*) AS `trades`
FROM `stock_trades`
GROUP BY `$rowtime`, `userid`, `side`, `symbol`"""
"""`$rowtime` is a record's timestamp. A replaced statement reads from the start: it writes the same groups again."""


def refuse_other_writers(outputs: Iterable[str]) -> None:
    """Raise SettingError if the job sends rows to the topic that the statements write; `outputs` are its topics."""
    if TOTALS in outputs:
        raise SettingError(
            f"the job and the statements of Flink would both write the topic {TOTALS}",
            hint="give the output of the table or the transformation another topic, or set flink: {statements: false}",
        )
