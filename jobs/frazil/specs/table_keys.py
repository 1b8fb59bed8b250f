"""The keys of a table spec."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import get_args

from frazil.model.change_events import PLACEHOLDER, POSITIONS
from frazil.model.spec import (
    CONFLUENT,
    ICEBERG_ALONE,
    METADATA_NAMES,
    BadRecordLimit,
    ChangeFormat,
    KeepSnapshots,
    KeyFormat,
    Maintain,
    MetadataColumns,
    OnBadRecord,
    OnIncompatibleSchema,
    Reader,
    SchemaEvolution,
    Start,
    StartEarliest,
    StartLatest,
    StartOffsets,
    StartTimestamp,
    StringFormats,
    SubjectSettings,
    TableFormat,
    Trigger,
    ValueFormat,
    WireFormat,
    WriteMode,
)
from frazil.specs.declared_fields import DECLARED_FIELDS, PARTS, POSSIBLE
from frazil.specs.keys import Built, Derived, Key, Required, Section, Values, WordOr
from frazil.specs.partitions import COLUMN_NAME, PARTITIONS, SORT_FIELDS
from frazil.specs.policy_keys import parse_column_path
from frazil.specs.scalars import COUNT, DURATION, PREFIX, SHARE, SIZE, TABLE_NAME, TEXT, TIME, TOPIC_NAME, WHOLE
from frazil.specs.shapes import Choice, ListOf, OrNull, Scalar
from frazil.specs.start_offsets import OFFSETS

KEPT_SNAPSHOTS, KEPT_METADATA, SUBJECTS = KeepSnapshots(), MetadataColumns(), SubjectSettings()
"""The values of a table spec without these keys: their defaults are those of the model."""


BY_OFFSET = "kafka_offset"
"""The word for the order of offsets, whatever the name of the offsets' column."""


def defaults_of(*keys: Key[object]) -> str:
    """Write a section in which each of these keys has its default."""
    return f"{{{', '.join(f'{key.name}: {key.default}' for key in keys)}}}"


TOPIC = Key(
    "topic",
    replace(TOPIC_NAME, for_lists="write `topics:` for several topics"),
    "The topic whose records become rows.",
    Derived("required, unless topics is given"),
)
TOPICS = Key(
    "topics",
    ListOf(TOPIC_NAME, at_least_one=True),
    "Several topics whose records become rows of one table; they may be added and removed later.",
    Derived("required, unless topic is given"),
)
TABLE = Key("table", TABLE_NAME, "The table's name; with routes or shapes, that of their group and its dead letters.",
            Derived("the topic's name in snake_case, without dots; required with topics"))  # fmt: skip
DATABASE = Key("database", TABLE_NAME, "The table's database.", Derived("database of frazil.yaml"))
KEY = Key(
    "key",
    Choice(get_args(KeyFormat)),
    "The format of record keys; none leaves the key out, and json keeps a JSON text as it is.",
    "string",
)
VALUE = Key(
    "value",
    Choice(get_args(ValueFormat)),
    "The format of record values. With json, string and bytes, which need no schema, the value is one column, `value`;"
    " json keeps a JSON text as it is. With connect_json, each record has its schema in it.",
    "avro",
)
FIELDS = Key(
    "fields",
    DECLARED_FIELDS,
    f"With value: json, the fields that become columns, with their types: {POSSIBLE}, {PARTS}. All others are kept in"
    " `_extra`.",
    Derived("none: the value is one column"),
)
WIRE_FORMAT = Key(
    "wire_format",
    Choice(get_args(WireFormat)),
    "Where records name the schemas of their values and keys: confluent, by an id in the 5 bytes before the data;"
    " confluent_headers, by a GUID in the headers `__value_schema_id` and `__key_schema_id`; glue, by the id of a"
    " schema version in the 18 bytes before the data.",
    CONFLUENT,
)
WRITE = Key(
    "write",
    Choice(
        get_args(WriteMode),
        elsewhere=(
            ("merge", "use upsert"),
            ("scd2", "use history"),
            ("insert", "use append"),
            ("cdc", "use write: upsert, and cdc: debezium beside it"),
            ("debezium", "use write: upsert, and cdc: debezium beside it"),
        ),
    ),
    "How records change the table: with append, every record becomes a row; with upsert, the newest record of each key"
    " is its row, and a record without a value deletes it; with deduplicate, the first record of each identity is its"
    " row for ever; with history, every record becomes a row with the interval in which it was valid.",
    "append",
)
IDENTITY = Key(
    "identity",
    ListOf(Scalar("a column", parse_column_path), at_least_one=True, example="[event_id]"),
    "With write: deduplicate, or upsert and order_by, the columns that say which records are the same thing: columns"
    " of the value, with dots before what is in a struct, or metadata columns. A record without a value has only"
    " those of its key, such as kafka_key.id.",
    Derived("the key of the record"),
)
CDC = Key(
    "cdc",
    Choice(get_args(ChangeFormat)),
    "The format of change events: with debezium, envelopes of Debezium become the rows of their table; with none, they"
    " become rows as they are.",
    "none",
)
CDC_DELETES = Key(
    "cdc_deletes",
    Choice(("by_key", "soft")),
    "With cdc, what a delete does: with by_key, it takes the row out; with soft, the row stays, and its column"
    " `__deleted` is true.",
    "by_key",
)
CDC_KEEP = Key(
    "cdc_keep",
    ListOf(TEXT),
    "With cdc, further fields of `source` and `transaction` that become columns: source.lsn is `__source_lsn`.",
    "[]",
)
CDC_PLACEHOLDER = Key(
    "cdc_placeholder",
    TEXT,
    "With cdc, the connector's `unavailable.value.placeholder`, which it writes for values that it cannot read.",
    PLACEHOLDER,
)
CDC_ORDER = Key(
    "cdc_order",
    Choice(("offset", "source")),
    "With cdc, what says which change of a key is the newest: the record's offset, or with source the position in the"
    " database's log.",
    "offset",
)
CDC_CONNECTOR = Key(
    "cdc_connector",
    Choice(tuple(POSITIONS)),
    "With cdc_order: source, the connector that writes the change events, as it names itself in `source.connector`.",
    Derived("none"),
)
PARTITION_BY = Key(
    "partition_by",
    PARTITIONS,
    "Partition fields: columns, or year, month, day, hour, void, bucket(n, …), truncate(n, …) of a column.",
    Derived("the day of the record's timestamp, if that column is kept"),
)
SORT_BY = Key(
    "sort_by",
    SORT_FIELDS,
    "The order of rows in a data file: top-level columns or transforms of them, optionally with desc, nulls first or"
    " nulls last; nulls are first by default, and last with desc.",
    Derived("none: as they were read"),
)
READERS = Key("readers", ListOf(Choice(get_args(Reader))),
              "The engines that must be able to read the table; [] checks none.",
              "[snowflake, athena, duckdb]")  # fmt: skip
ON_BAD_RECORD = Key("on_bad_record", Choice(get_args(OnBadRecord)),
                    "What happens to a record that cannot become a row.", "dead_letter")  # fmt: skip
SHARE_KEY = Key("share", SHARE, "The share of a batch's records that may be bad.", "5%", "percent")
AT_LEAST = Key("at_least", COUNT, "The number of bad records below which the share is ignored.", "100", "records")
LIMIT = Key(
    "bad_record_limit",
    WordOr(
        {"off": BadRecordLimit.off()},
        Built(
            Section((SHARE_KEY, AT_LEAST)),
            lambda values: BadRecordLimit(share=values[SHARE_KEY], at_least=values[AT_LEAST]),
        ),
    ),
    "Pause the table when a batch exceeds both limits; off disables the limit.",
    defaults_of(SHARE_KEY, AT_LEAST),
)
ON_TOMBSTONE = Key(
    "on_tombstone",
    Choice(
        ("row", "skip", "dead_letter"),
        elsewhere=(
            ("delete", "leave it out: with write: upsert, a record without a value deletes the row of its key"),
        ),
    ),
    "What happens to a record without a value.",
    Derived(
        "row; with write: upsert, it deletes the row of its key; with write: history, it ends its interval; dead_letter"
        " with identity, which write: upsert asks to be written"
    ),
)
ON_SCHEMA = Key(
    "on_incompatible_schema",
    Choice(get_args(OnIncompatibleSchema)),
    "What happens when a writer's schema requires a change that is unsafe for the table: pause it, make dead letters of"
    " the records with this schema, or give each field of another type a new column, such as price__v2.",
    "pause",
)
EVOLUTION = Key(
    "evolution",
    Choice(get_args(SchemaEvolution)),
    "Which writer schemas are accepted: with lenient, all that the table can hold; with strict, only"
    " schemas that Confluent's checker for Iceberg tables accepts as well. Not with `wire_format: confluent_headers` or"
    " `connect_json`, whose schemas have no order.",
    "lenient",
)
EVERY = Key("every", DURATION, "The time between the starts of two batches.", "60s", "s, m, h or d")
ROWS = Key("rows", COUNT, "The number of waiting records that starts a batch, and the most that one reads.", "5000000",
           "records")  # fmt: skip
BYTES = Key("bytes", SIZE, "The most bytes that a batch reads; does not start a batch.", "1GB",
            "KB, MB, GB (1000) or KiB, MiB, GiB (1024)")  # fmt: skip
TRIGGER = Key(
    "trigger",
    Built(Section((EVERY, ROWS, BYTES)), lambda values: Trigger(values[EVERY], values[ROWS], values[BYTES])),
    "What starts a batch: whichever comes first.",
    defaults_of(EVERY, ROWS, BYTES),
)
TARGET_FILE = Key("target_file", SIZE, "The target size of a data file.", "512MB",
                  "KB, MB, GB (1000) or KiB, MiB, GiB (1024)")  # fmt: skip
KEEP_AGE = Key("age", DURATION, "The time that a snapshot is kept.",
               f"{KEPT_SNAPSHOTS.age // timedelta(hours=1)}h", "s, m, h or d")  # fmt: skip
KEEP_COUNT = Key("count", COUNT, "The most snapshots that are kept.", str(KEPT_SNAPSHOTS.count), "snapshots")
KEEP_DAILY = Key("daily", WHOLE, "The number of days whose last snapshot (UTC) stays tagged; 0 for none.",
                 str(KEPT_SNAPSHOTS.daily), "days")  # fmt: skip
KEEP_SNAPSHOTS = Key(
    "keep_snapshots",
    Built(
        Section((KEEP_AGE, KEEP_COUNT, KEEP_DAILY)),
        lambda values: KeepSnapshots(values[KEEP_AGE], values[KEEP_COUNT], values[KEEP_DAILY]),
    ),
    "Which old snapshots are kept for time travel: the fewer of age and count, plus one per day.",
    defaults_of(KEEP_AGE, KEEP_COUNT, KEEP_DAILY),
)
KEEP_DEAD_LETTERS = Key(
    "keep_dead_letters",
    DURATION,
    "The time that a dead letter is kept after it was read.",
    Derived("for ever"),
    "s, m, h or d",
)
RETAIN_ROWS = Key(
    "retain_rows",
    OrNull(DURATION),
    "The time that rows are kept, by the first time in `partition_by`: a partition goes once all of it is older.",
    Derived("for ever"),
    "s, m, h or d",
)
REWRITE_DELETED = Key(
    "rewrite_deleted",
    SHARE,
    "By how much deleted rows and small files may slow a scan down before files are written again without them; 100%"
    " for never.",
    "25%",
)
Z_ORDER = Key(
    "z_order",
    ListOf(COLUMN_NAME),
    "Up to 4 columns: files that are merged or written again get rows with near values of all of them next to each"
    " other, so that a filter on any of them skips row groups. Not with sort_by.",
    "[]",
)
MAINTAIN = Key(
    "maintain",
    Built(
        Section(
            (TARGET_FILE, KEEP_SNAPSHOTS, KEEP_DEAD_LETTERS, RETAIN_ROWS, REWRITE_DELETED, Z_ORDER),
        ),
        lambda values: Maintain(
            target_file_bytes=values[TARGET_FILE],
            keep_snapshots=values[KEEP_SNAPSHOTS],
            keep_dead_letters=values.get(KEEP_DEAD_LETTERS),
            retain_rows=values.get(RETAIN_ROWS),
            rewrite_deleted=values[REWRITE_DELETED],
            z_order=tuple(values[Z_ORDER]),
        ),
    ),
    "Maintenance of the table's files and snapshots, and of its dead letters.",
    defaults_of(TARGET_FILE, KEEP_SNAPSHOTS, REWRITE_DELETED, Z_ORDER),
)
FORMATS = Key("formats", ListOf(Choice(get_args(TableFormat)), at_least_one=True),
              "The table formats: always iceberg, optionally with a Delta log.",
              f"[{', '.join(ICEBERG_ALONE)}]")  # fmt: skip
TIMESTAMP = Key("timestamp", TIME, "Start at the first record with this timestamp or a later one.",
                Derived("none"), "ISO 8601 with a time zone")  # fmt: skip
OFFSETS_KEY = Key("offsets", OFFSETS, "The first offset per partition; unlisted partitions start at their"
    " earliest offset.",
                  Derived("none"))  # fmt: skip


def start_of(values: Values) -> Start:
    at = values.get(TIMESTAMP)
    return StartOffsets(values[OFFSETS_KEY]) if at is None else StartTimestamp(at)


START_WORDS: dict[str, Start] = {"earliest": StartEarliest(), "latest": StartLatest()}
START_SECTION = Section((TIMESTAMP, OFFSETS_KEY), exactly_one=("timestamp", "offsets"))
START = Key("start", WordOr(START_WORDS, Built(START_SECTION, start_of)),
            "Where a new table starts to read its topics, and an existing table a topic that is added.",
            "earliest")  # fmt: skip
PREFIX_KEY = Key("prefix", PREFIX, "The prefix of the metadata columns' names.", KEPT_METADATA.prefix)
KEEP = Key("keep", ListOf(Choice(METADATA_NAMES)),
           "The metadata columns that are kept; partition and offset always, also of [], topic if there are several,"
           " and by default schema_uuid if the wire format has one.",
           f"[{', '.join(KEPT_METADATA.keep)}]")  # fmt: skip
METADATA_SECTION = Section((PREFIX_KEY, KEEP))
METADATA = Key("metadata", METADATA_SECTION, "Columns with the Kafka metadata of each record.", "{}")
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
SUBJECT = Key(
    "subject",
    SUBJECT_SHAPE,
    "The registry subject of value schemas, if a schema decodes values: a naming strategy or a name.",
    SUBJECTS.naming,
)
KEY_SUBJECT = Key("key_subject", SUBJECT_SHAPE, "The registry subject of key schemas, if a schema decodes keys.",
                  SUBJECTS.naming)  # fmt: skip
FIRST_MESSAGE = Derived("the first message of each schema")
MESSAGE = Key("message", TEXT, "The full name of the message of the values, if value is protobuf, such as shop.Order."
              " Records of other messages are bad. A route's `schema` is its own message.", FIRST_MESSAGE)  # fmt: skip
KEY_MESSAGE = Key("key_message", TEXT, "The full name of the message of the keys, if key is protobuf.",
                  FIRST_MESSAGE)  # fmt: skip
STRING_FORMATS = Key(
    "string_formats",
    Choice(get_args(StringFormats)),
    "With typed, texts of a JSON Schema with the format date-time, date or time become columns of these types.",
    "typed",
)
ORDER_BY = Key(
    "order_by",
    Scalar("a column", parse_column_path),
    "With write: upsert, the column whose greatest value makes a record the newest one of its key: of whole numbers,"
    " dates or times, such as kafka_timestamp, with dots before what is in a struct. With write: history, the column of"
    " dates or times from which on rows are valid. Equal ones are ordered by partition and offset.",
    BY_OFFSET,
)
DELETE_MEMORY = Key(
    "delete_memory",
    DURATION,
    "With order_by, how long a delete is remembered: until then, a record that is older cannot bring its key back, or"
    " in a history be valid after it.",
    "7d",
    "s, m, h or d",
)
