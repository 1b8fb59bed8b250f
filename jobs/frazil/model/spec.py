"""Table specs, after `specs/` has parsed and validated them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from frazil.model.change_events import ChangeEvents
from frazil.model.identity_columns import HALVES
from frazil.model.outputs import OutputSpec
from frazil.model.pipeline import Pipeline
from frazil.model.policies import NO_POLICIES, Policies
from frazil.model.routes import Group
from frazil.model.schemas import SchemaType
from frazil.model.secret import NamedKey

ValueFormat = Literal["avro", "protobuf", "json_schema", "connect_json", "json", "string", "bytes"]
KeyFormat = Literal["none", "bytes", "string", "json", "avro", "protobuf", "json_schema", "connect_json"]
SCHEMA_TYPES: Mapping[str, SchemaType] = {"avro": "AVRO", "protobuf": "PROTOBUF", "json_schema": "JSON"}
"""The registry's schema type for each format that is decoded by a registered schema."""
EMBEDDED = "connect_json"
"""The format whose records have their schema in them."""
WireFormat = Literal["confluent", "confluent_headers", "glue"]
"""Where records have the id of their writer schema: before the payload, in a header, or before it as AWS Glue does."""
CONFLUENT: WireFormat = "confluent"
StringFormats = Literal["typed", "text"]
ChangeFormat = Literal["none", "debezium"]
WriteMode = Literal["append", "upsert", "deduplicate", "history"]
OnBadRecord = Literal["dead_letter", "skip", "stop"]
OnTombstone = Literal["row", "skip", "dead_letter", "delete"]
OnIncompatibleSchema = Literal["pause", "dead_letter", "new_column"]
SchemaEvolution = Literal["lenient", "strict"]
Reader = Literal["snowflake", "athena", "duckdb", "spark", "pyiceberg"]
TableFormat = Literal["iceberg", "delta"]
ICEBERG_ALONE: tuple[TableFormat, ...] = ("iceberg",)
"""The formats of a table whose spec names none."""
SubjectNaming = Literal["topic", "record", "topic-record"]


def schema_type_of(word: str) -> SchemaType | None:
    """Return the type of the schemas that decode a format; None if no schema does."""
    return "CONNECT" if word == EMBEDDED else SCHEMA_TYPES.get(word)


METADATA_NAMES = (
    "topic", "partition", "offset", "timestamp", "timestamp_type", "key", "headers", "schema_id", "leader_epoch",
    "value", "schema_uuid",
)  # fmt: skip
"""The metadata columns, without their prefix."""


@dataclass(frozen=True, slots=True)
class MetadataColumns:
    """The metadata columns of a table. Partition and offset are always kept."""

    prefix: str = "kafka_"
    keep: tuple[str, ...] = ("partition", "offset", "timestamp", "key", "schema_id")


@dataclass(frozen=True, slots=True)
class BadRecordLimit:
    """The limit of dead letters in a batch. More than `share` of its records and at least `at_least` pause the table.

    `share` is a fraction from 0 to 1; `BadRecordLimit.off()` never pauses.
    """

    share: float
    at_least: int

    @staticmethod
    def off() -> BadRecordLimit:
        return BadRecordLimit(share=1.0, at_least=2**63)

    def exceeded_by(self, *, bad: int, read: int) -> bool:
        return bad >= self.at_least and bad > self.share * read


@dataclass(frozen=True, slots=True)
class Trigger:
    """When a batch starts, and the limits of its size."""

    every: timedelta
    rows: int
    bytes: int


@dataclass(frozen=True, slots=True)
class KeepSnapshots:
    """Keep at most `count` snapshots of `main`, for `age`; one per day stays tagged for `daily` days."""

    age: timedelta = timedelta(hours=24)
    count: int = 1440
    daily: int = 7

    @property
    def longest(self) -> timedelta:
        """The greatest age of a snapshot; the day of a daily tag counts as a whole."""
        return max(self.age, timedelta(days=self.daily + 1) if self.daily else self.age)


MOST_Z_ORDERED = 4
"""Columns of a z-order: with more, a row group has nearly all values of each."""


@dataclass(frozen=True, slots=True)
class Maintain:
    target_file_bytes: int
    keep_snapshots: KeepSnapshots = KeepSnapshots()
    keep_dead_letters: timedelta | None = None
    """How long dead letters are kept after they were read; None for ever."""

    retain_rows: timedelta | None = None
    """How long rows are kept, by the time in `partition_by`; None for ever."""

    rewrite_deleted: float = 0.25
    """The share of a scan's cost that is wasted on deleted rows and on small files, from which files are rewritten."""

    z_order: tuple[str, ...] = ()
    """Columns of which each file that is rewritten has a narrow range of values, or narrow ones in its row groups."""


@dataclass(frozen=True, slots=True)
class StartEarliest:
    """Start at the oldest record that Kafka still has."""


@dataclass(frozen=True, slots=True)
class StartLatest:
    """Start at the end of each partition when the table is first read."""


@dataclass(frozen=True, slots=True)
class StartTimestamp:
    """Start at the first record whose timestamp is at or after this one."""

    at: datetime


@dataclass(frozen=True, slots=True)
class StartOffsets:
    """Start at these offsets, by partition. Other partitions start at their earliest offset."""

    offsets: Mapping[int, int]


Start = StartEarliest | StartLatest | StartTimestamp | StartOffsets


@dataclass(frozen=True, slots=True)
class SubjectSettings:
    """The registry subject of a topic's values (or keys): a naming strategy, or a name."""

    naming: SubjectNaming = "topic"
    override: str | None = None
    suffixed: bool = True
    """Whether the subject of a topic ends with its part; schemas in AWS Glue have the name of the topic."""

    def of(self, topic: str, part: Literal["value", "key"]) -> str | None:
        """Return the subject of a topic's values or keys; None if the subject depends on the record's type."""
        if self.override is not None:
            return self.override
        if self.naming != "topic":
            return None
        return f"{topic}-{part}" if self.suffixed else topic


@dataclass(frozen=True, slots=True)
class FormatSettings:
    """What a spec says about the format of its values, or of its keys. A format ignores the settings of others.

    `message` is the full name of the Protobuf message; None for the first message of each schema.
    `string_formats` says whether texts of a JSON Schema with the format date-time, date or time become columns of these
    types. `fields` are the declared fields of JSON values, as `model.declared` stores them; empty if there are none.
    `policies` are those of the values' columns, or of the key column's own, and `hash_key` is the key of their hashes.
    `change_events` says how values become changes, if they are change events. `of_change_events`: the keys are theirs.
    """

    message: str | None = None
    string_formats: StringFormats = "typed"
    fields: str = ""
    policies: Policies = NO_POLICIES
    hash_key: NamedKey | None = None
    change_events: ChangeEvents | None = None
    of_change_events: bool = False


DEFAULT_SETTINGS = FormatSettings()


@dataclass(frozen=True, slots=True)
class TableSpec:
    """One table: the topics of its records, and how the records become rows."""

    source_file: str
    database: str
    table: str
    topics: tuple[str, ...]
    key: KeyFormat
    value: ValueFormat
    write: WriteMode
    partition_by: tuple[str, ...]
    readers: tuple[Reader, ...]
    on_bad_record: OnBadRecord
    bad_record_limit: BadRecordLimit
    on_tombstone: OnTombstone
    on_incompatible_schema: OnIncompatibleSchema
    trigger: Trigger
    maintain: Maintain
    start: Start
    metadata: MetadataColumns
    value_subject: SubjectSettings
    key_subject: SubjectSettings
    formats: tuple[TableFormat, ...] = ICEBERG_ALONE
    wire_format: WireFormat = CONFLUENT
    value_settings: FormatSettings = DEFAULT_SETTINGS
    key_settings: FormatSettings = DEFAULT_SETTINGS
    policies: Policies = NO_POLICIES
    dead_letter_key: NamedKey | None = None
    """The key that encrypts dead letters, for a spec that is `masked`."""
    erasure_key: NamedKey | None = None
    """The key of the hashes of erased values: `hash_key` in frazil.yaml, also if the table has no hashes."""
    evolution: SchemaEvolution = "lenient"
    sort_by: tuple[str, ...] = ()
    order_by: str | None = None
    """The path of the column whose greater value makes a record of an identity the newer one; None for the offset."""
    delete_memory: timedelta = timedelta(days=7)
    """How long deletes are remembered, where another order than the offset may bring a record after its delete."""
    identity: tuple[str, ...] = ()
    """The paths of the columns that are the identity of a row; none if it is the key of the record."""
    group: Group | None = None
    """The tables that are read together with this one, for a spec with routes."""
    outputs: tuple[OutputSpec, ...] = ()
    """The topics that follow the table."""

    @property
    def value_type(self) -> SchemaType | None:
        """The type of the schemas that decode values; None if no schema does."""
        return schema_type_of(self.value)

    @property
    def key_type(self) -> SchemaType | None:
        """The type of the schemas that decode keys; None if no schema does."""
        return schema_type_of(self.key)

    @property
    def cdc(self) -> ChangeFormat:
        """Return the format of the change events that the values are."""
        return "none" if self.value_settings.change_events is None else "debezium"

    @property
    def follows_keys(self) -> bool:
        """Return whether records change the rows of their identity (docs/decisions/0036)."""
        return self.write != "append"

    @property
    def replaces_rows(self) -> bool:
        return self.write == "upsert"

    @property
    def has_null_keys(self) -> bool:
        return False

    @property
    def internal_columns(self) -> frozenset[str]:
        """The columns that output topics have only if they are named."""
        metadata = {self.metadata.prefix + name for name in METADATA_NAMES}
        return frozenset({*metadata, *(HALVES if self.follows_keys else ())})

    @property
    def keeps_history(self) -> bool:
        """Return whether the table has each row that an identity had, with the interval in which it was valid."""
        return self.write == "history"

    @property
    def order(self) -> tuple[str, ...]:
        """The paths of what says which record of an identity is newer, the most significant first; none: offsets do."""
        events = self.value_settings.change_events
        return (self.order_by,) if self.order_by is not None else () if events is None else events.position

    @property
    def orders_by_value(self) -> bool:
        """Return whether columns of the value say which record of an identity is newer."""
        return self.orders_by_field and not self.orders_by_key

    @property
    def orders_by_field(self) -> bool:
        """Return whether fields of the value or of the key say it: not the offset, nor the timestamp."""
        return self.order not in ((), (f"{self.metadata.prefix}timestamp",))

    @property
    def orders_by_key(self) -> bool:
        """Return whether a field of the key says it, which a record without a value has as well."""
        return self.order_by is not None and self.order_by.startswith(f"{self.metadata.prefix}key.")

    @property
    def remembers_deletes(self) -> bool:
        """Return whether a record may come after a delete that is newer, which the table has to remember."""
        events = self.value_settings.change_events
        return bool(self.order) and (self.on_tombstone == "delete" or (events is not None and not events.soft_deletes))

    @property
    def identity_paths(self) -> tuple[str, ...]:
        """The paths of the columns whose values are the identity of a row; none if the table does not follow keys."""
        if not self.follows_keys:
            return ()
        return self.identity or (f"{self.metadata.prefix}key",)

    def is_in_identity(self, path: str) -> bool:
        """Return whether a column is part of the identity: rows of one identity have the same value in it."""
        return any(f"{path}.".startswith(f"{each}.") for each in self.identity_paths)

    @property
    def is_identified_by_key(self) -> bool:
        """Return whether the identity is the key, or fields of the key, which a record without a value has as well."""
        tops = {path.partition(".")[0] for path in self.identity_paths}
        return tops == {f"{self.metadata.prefix}key"}

    @property
    def batch_rows(self) -> int:
        """The rows from which on a batch starts early, and which it has at most."""
        return self.trigger.rows

    @property
    def needs_registry(self) -> bool:
        return not SCHEMA_TYPES.keys().isdisjoint((self.value, self.key))

    @property
    def masked(self) -> bool:
        """The presence of policies in this table or its group: if there are any, messages quote no value."""
        return bool(self.policies) or (self.group is not None and self.group.masked)

    @property
    def identifier(self) -> str:
        return f"{self.database}.{self.table}"

    @property
    def ledger(self) -> str | None:
        """The identifier of its group's ledger, for another table of the group; None for any other table."""
        return None if self.group is None or self.group.ledger == self.identifier else self.group.ledger

    @property
    def dead_letters_identifier(self) -> str:
        return f"{self.pipeline.name}__dead_letters"

    @property
    def pipeline(self) -> Pipeline:
        """The owner of the table's state: the table itself, or its group."""
        name = self.identifier if self.group is None else self.group.identifier
        return Pipeline(name, tuple(sorted(self.topics)))
