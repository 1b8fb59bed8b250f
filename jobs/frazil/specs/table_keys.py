"""The keys of a table spec."""

from __future__ import annotations

from frazil.model.spec import (
    BadRecordLimit,
    KeepSnapshots,
    Maintain,
    Start,
    StartEarliest,
    StartLatest,
    StartOffsets,
    StartTimestamp,
    SubjectSettings,
    Trigger,
)
from frazil.specs.keys import Built, Derived, Key, Required, Section, Values, WordOr
from frazil.specs.partitions import PartitionList
from frazil.specs.scalars import COUNT, DURATION, PREFIX, SHARE, SIZE, TABLE_NAME, TEXT, TIME, TOPIC_NAME, WHOLE
from frazil.specs.shapes import Choice, ListOf, NotYet
from frazil.specs.start_offsets import OFFSETS

METADATA_NAMES = (
    "topic", "partition", "offset", "timestamp", "timestamp_type", "key", "headers", "schema_id", "leader_epoch",
    "value",
)  # fmt: skip


def planned(instead: str, *names: str) -> tuple[NotYet, ...]:
    return tuple(NotYet(name, instead) for name in names)


TOPIC = Key("topic", TOPIC_NAME, "The topic whose records become rows.", Derived("required, unless topics is given"))
TOPICS = Key("topics", ListOf(TOPIC_NAME, at_least_one=True), "Several topics whose records become rows of one table.",
             Derived("required, unless topic is given"))  # fmt: skip
TABLE = Key("table", TABLE_NAME, "The table's name.",
            Derived("the topic's name in lower-case snake, without dots; must be given with topics"))  # fmt: skip
DATABASE = Key("database", TABLE_NAME, "The database that the table lies in.", Derived("database of frazil.yaml"))
KEY = Key(
    "key",
    Choice(
        ("none", "bytes", "string", "avro"),
        planned("there are none, bytes, string and avro; bytes keeps any key as it is", "protobuf", "json_schema"),
    ),
    "How a record's key is read; none leaves it out.",
    "string",
)
VALUE = Key(
    "value",
    Choice(("avro",), planned("there is avro", "protobuf", "json_schema", "json", "string", "bytes")),
    "How a record's value is read.",
    "avro",
)
WRITE = Key(
    "write",
    Choice(("append",), planned("there is append: every record becomes a row", "upsert", "deduplicate", "history")),
    "What a record does to the table: append makes it a row.",
    "append",
)
CDC = Key(
    "cdc",
    Choice(("none",), planned("there is none: change events become rows as they are", "debezium")),
    "The envelope that change events come in.",
    "none",
)
PARTITION_BY = Key(
    "partition_by",
    PartitionList(),
    "How the table is partitioned: columns, or year, month, day, hour, void, bucket(n, …), truncate(n, …) of one.",
    Derived("the day of the record's timestamp, where that column is kept"),
)
READERS = Key("readers", ListOf(Choice(("snowflake", "athena", "duckdb", "spark"))),
              "What must be able to read the table.", "[snowflake, athena, duckdb]")  # fmt: skip
ON_BAD_RECORD = Key("on_bad_record", Choice(("dead_letter", "skip", "stop")),
                    "What becomes of a record that cannot become a row.", "dead_letter")  # fmt: skip
SHARE_KEY = Key("share", SHARE, "Which part of a batch's records may be bad.", "5%", "percent")
AT_LEAST = Key("at_least", COUNT, "How many bad records there must be before the share counts.", "100", "records")
LIMIT = Key(
    "bad_record_limit",
    WordOr(
        {"off": BadRecordLimit.off()},
        Built(
            Section((SHARE_KEY, AT_LEAST)),
            lambda values: BadRecordLimit(share=values[SHARE_KEY], at_least=values[AT_LEAST]),
        ),
    ),
    "Both exceeded in one batch: the table is paused instead. off: never.",
    "{share: 5%, at_least: 100}",
)
ON_TOMBSTONE = Key("on_tombstone", Choice(("row", "skip", "dead_letter")),
                   "What becomes of a record without a value.", "row")  # fmt: skip
ON_SCHEMA = Key(
    "on_incompatible_schema",
    Choice(("pause",), planned("there is pause", "dead_letter", "new_column")),
    "What happens when a writer's schema asks for a change that is not safe for the table.",
    "pause",
)
EVERY = Key("every", DURATION, "How long after a batch started the next one starts.", "60s", "s, m, h or d")
ROWS = Key("rows", COUNT, "How many waiting records start a batch, and how many it takes at most.", "5000000",
           "records")  # fmt: skip
BYTES = Key("bytes", SIZE, "How many bytes a batch takes at most; what waits is counted in records.", "1GB",
            "KB, MB, GB (1000) or KiB, MiB, GiB (1024)")  # fmt: skip
TRIGGER = Key(
    "trigger",
    Built(Section((EVERY, ROWS, BYTES)), lambda values: Trigger(values[EVERY], values[ROWS], values[BYTES])),
    "What starts a batch; whichever comes first.",
    "{every: 60s, rows: 5000000, bytes: 1GB}",
)
TARGET_FILE = Key("target_file", SIZE, "How large a data file should be.", "512MB",
                  "KB, MB, GB (1000) or KiB, MiB, GiB (1024)")  # fmt: skip
KEEP_AGE = Key("age", DURATION, "How long a snapshot is kept.", "24h", "s, m, h or d")
KEEP_COUNT = Key("count", COUNT, "How many of them are kept at most.", "1440", "snapshots")
KEEP_DAILY = Key("daily", WHOLE, "For how many days the last snapshot of each day (UTC) stays tagged; 0 for none.",
                 "7", "days")  # fmt: skip
KEEP_SNAPSHOTS = Key(
    "keep_snapshots",
    Built(
        Section((KEEP_AGE, KEEP_COUNT, KEEP_DAILY)),
        lambda values: KeepSnapshots(values[KEEP_AGE], values[KEEP_COUNT], values[KEEP_DAILY]),
    ),
    "How long old snapshots stay, for time travel: whichever of age and count keeps fewer, and one a day.",
    "{age: 24h, count: 1440, daily: 7}",
)
MAINTAIN = Key(
    "maintain",
    Built(
        Section(
            (TARGET_FILE, KEEP_SNAPSHOTS),
            not_yet=(NotYet("retain_rows", "every row is kept; remove the key"),),
        ),
        lambda values: Maintain(target_file_bytes=values[TARGET_FILE], keep_snapshots=values[KEEP_SNAPSHOTS]),
    ),
    "How the table's files and snapshots are kept.",
    "{target_file: 512MB, keep_snapshots: {age: 24h, count: 1440, daily: 7}}",
)
FORMATS = Key("formats", ListOf(Choice(("iceberg", "delta")), at_least_one=True),
              "The table formats that the files are offered in: always iceberg, and beside it a Delta log.",
              "[iceberg]")  # fmt: skip
TIMESTAMP = Key("timestamp", TIME, "The first record whose timestamp is not before this one.",
                Derived("none"), "ISO 8601 with a time zone")  # fmt: skip
OFFSETS_KEY = Key("offsets", OFFSETS, "The first offset by partition; a partition not named starts at its earliest.",
                  Derived("none"))  # fmt: skip


def start_of(values: Values) -> Start:
    at = values.get(TIMESTAMP)
    return StartOffsets(values[OFFSETS_KEY]) if at is None else StartTimestamp(at)


START_WORDS: dict[str, Start] = {"earliest": StartEarliest(), "latest": StartLatest()}
START_SECTION = Section((TIMESTAMP, OFFSETS_KEY), exactly_one=("timestamp", "offsets"))
START = Key("start", WordOr(START_WORDS, Built(START_SECTION, start_of)),
            "Where the first batch begins; a table that has rows goes on from them.", "earliest")  # fmt: skip
PREFIX_KEY = Key("prefix", PREFIX, "What the names of these columns begin with.", "kafka_")
KEEP = Key("keep", ListOf(Choice(METADATA_NAMES)),
           "Which of them the table has; partition and offset always, topic where there are several.",
           "[partition, offset, timestamp, key, schema_id]")  # fmt: skip
METADATA_SECTION = Section((PREFIX_KEY, KEEP))
METADATA = Key("metadata", METADATA_SECTION, "Columns about the record itself, beside the record's own.", "{}")
SUBJECT_WORDS = {
    "topic": SubjectSettings("topic"),
    "record": SubjectSettings("record"),
    "topic-record": SubjectSettings("topic-record"),
}
SUBJECT_NAME = Key("name", TEXT, "The subject's name.", Required())
SUBJECT_SHAPE = WordOr(
    SUBJECT_WORDS,
    Built(Section((SUBJECT_NAME,)), lambda values: SubjectSettings(override=values[SUBJECT_NAME])),
)
SUBJECT = Key("subject", SUBJECT_SHAPE, "The registry subject of the values' schemas: a naming strategy, or a name.",
              "topic")  # fmt: skip
KEY_SUBJECT = Key("key_subject", SUBJECT_SHAPE, "The registry subject of the keys' schemas, where key is avro.",
                  "topic")  # fmt: skip
ORDER_BY = Key(
    "order_by",
    Choice(("kafka_offset",), planned("append keeps every version of a row, so there is nothing to order", "*")),
    "Which version of a row is newest; without effect while append is the only way to write.",
    "kafka_offset",
)

TABLE_SECTION = Section(
    (
        TOPIC,
        TOPICS,
        TABLE,
        DATABASE,
        KEY,
        VALUE,
        WRITE,
        ORDER_BY,
        CDC,
        PARTITION_BY,
        READERS,
        ON_BAD_RECORD,
        LIMIT,
        ON_TOMBSTONE,
        ON_SCHEMA,
        TRIGGER,
        MAINTAIN,
        FORMATS,
        START,
        METADATA,
        SUBJECT,
        KEY_SUBJECT,
    ),
    not_yet=(
        NotYet("identity", "there is write: append, which needs none; remove the key"),
        NotYet("columns", "columns are carried over as they are; leave the topic out while a column must be masked"),
    ),
    exactly_one=("topic", "topics"),
)
