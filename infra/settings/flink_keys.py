"""The keys of the section `kafka.confluent.flink` of an environment's file."""

from __future__ import annotations

from frazil.specs.keys import Built, Derived, Key, Section
from frazil.specs.shapes import Choice
from infra.settings.model import Flink
from infra.settings.scalars import BOOLEAN

MAX_CFU = Key(
    "max_cfu",
    Choice(("5", "10", "20", "30", "40", "50")),
    "How many CFU the pool may use at once; Confluent bills those in use, and refuses to lower the number.",
    "5",
)
STATEMENTS = Key(
    "statements",
    BOOLEAN,
    "Whether statements keep the topic stock_total_trades, as the transformation of that name keeps its table; needs "
    "`datagen`.",
    "true",
)
FLINK = Key(
    "flink",
    Built(Section((MAX_CFU, STATEMENTS)), lambda values: Flink(int(values[MAX_CFU]), values[STATEMENTS])),
    "Also create a compute pool of Confluent Cloud for Apache Flink, in the cluster's region.",
    Derived("none"),
)
