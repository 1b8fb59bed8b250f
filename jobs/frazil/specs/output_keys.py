"""The keys of an output topic of a table."""

from __future__ import annotations

from frazil.specs.keys import Derived, Key, Required, Section
from frazil.specs.partitions import COLUMN_NAME
from frazil.specs.scalars import COUNT, TOPIC_NAME
from frazil.specs.shapes import ListOf

OUTPUT_TOPIC = Key("topic", TOPIC_NAME, "The topic that gets the rows. It must exist.", Required())
OUTPUT_NAME = Key(
    "name",
    TOPIC_NAME,
    "The name of the output. Another name is another output, which begins at the table's present epoch.",
    Derived("the topic's"),
)
OUTPUT_KEY = Key(
    "key",
    ListOf(COLUMN_NAME, example="[user_id]"),
    "The columns that make a record's key. One column of text or bytes is the key as it is; others are an Avro record.",
    Derived("with write: upsert, the identity; else the column of the record keys, such as kafka_key, if there is one"),
)
OUTPUT_COLUMNS = Key(
    "columns",
    ListOf(COLUMN_NAME, at_least_one=True, example="[symbol, price]"),
    "The columns of a record's value.",
    Derived("all but the metadata columns"),
)
OUTPUT_SHARDS = Key(
    "shards",
    COUNT,
    "The number of transactions that an epoch is sent in, no more than the topic has partitions. It cannot change.",
    "1",
)
OUTPUT = Section(
    (OUTPUT_TOPIC, OUTPUT_NAME, OUTPUT_KEY, OUTPUT_COLUMNS, OUTPUT_SHARDS), label="an output", example="`topic: trades`"
)
OUTPUTS = Key(
    "outputs",
    ListOf(OUTPUT, at_least_one=True, example="a list: `- {topic: trades.clean}`"),
    "Topics that follow the table: the rows of each epoch become Avro records, in transactions; with write: upsert,"
    " deleted keys become tombstones.",
    Derived("none"),
)
