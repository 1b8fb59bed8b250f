"""Transformations: tables that follow another table, batch by batch (docs/decisions/0051)."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field

from frazil.model.join_history import Boundary, JoinHistory
from frazil.model.outputs import OutputSpec
from frazil.model.snapshot import Snapshot, TableView
from frazil.model.spec import Maintain
from frazil.model.summary import carries_state

TRANSFORM_TAG = "frazil_transform_"
"""The beginning of the tag on the snapshot up to which a transformation has read its source; then follows its table:
another project may have a transformation of the same name."""

TRANSFORM = "frazil.transform"
"""A summary key of each snapshot of a transformation: its name."""
TRANSFORM_EPOCH = "frazil.transform.epoch"
"""How many batches have been published."""
GROUPS = "frazil.transform.groups"
"""If rows are replaced: the columns that name a row, and those that the query does not have."""
DEFINITION = "frazil.transform.definition"
POSITION = "frazil.transform.position"
JOINED = "frazil.transform.joined"
SCHEMAS = "frazil.transform.schemas"
"""The ids of the schemas with which the tables were read last."""
BATCH_ID = "frazil.transform.batch-id"
SECONDS = "frazil.transform.seconds"
"""A summary key: the seconds from the begin of a batch until its files were written. A rebuild has none."""


@dataclass(frozen=True, slots=True)
class TransformSpec:
    """One transformation. `source` is the table that it follows, `joins` are tables that it reads whole.

    Either `sql` or `function`, as `module:function`, says what becomes of the rows. `source` and `joins` have the form
    `database.table`. `folder` is that of frazil.yaml, in which modules are looked for. If rows of `source`
    also change, `source_changes` is true; `source_identity` are the columns that name one of its rows, if it has such.
    If its batches take duplicates out of the files that they add, `source_deduplicates` is true.
    """

    source_file: str
    name: str
    database: str
    table: str
    source: str
    joins: tuple[str, ...] = ()
    sql: str = ""
    function: str = ""
    partition_by: tuple[str, ...] = ()
    sort_by: tuple[str, ...] = ()
    folder: str = ""
    maintain: Maintain = field(default_factory=lambda: Maintain(target_file_bytes=512_000_000))
    outputs: tuple[OutputSpec, ...] = ()
    source_changes: bool = False
    source_deduplicates: bool = False
    source_identity: tuple[str, ...] = ()

    @property
    def identifier(self) -> str:
        return f"{self.database}.{self.table}"

    @property
    def target_file_bytes(self) -> int:
        return self.maintain.target_file_bytes

    @property
    def tag(self) -> str:
        return TRANSFORM_TAG + self.identifier

    @property
    def tables(self) -> tuple[str, ...]:
        """All tables that it reads, the followed one first."""
        return (self.source, *self.joins)

    def definition(self, code: str = "") -> str:
        """Return a hash of what decides the rows; `code` is the text of the module that the function is in.

        A function gets the joined tables in their order, which SQL does not see.
        """
        joins = self.joins if self.function else sorted(self.joins)
        text = json.dumps([self.source, joins, self.sql.strip(), self.function, code])
        return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


@dataclass(frozen=True, slots=True)
class Position:
    """Up to where a table was read: the epoch, and its snapshot."""

    table: str
    uuid: str
    epoch: int
    snapshot_id: int

    def __str__(self) -> str:
        return f"epoch {self.epoch}, snapshot {self.snapshot_id}"

    @property
    def boundary(self) -> Boundary:
        return Boundary(self.epoch, self.snapshot_id)


@dataclass(frozen=True, slots=True)
class Identified:
    """The columns that name a row of a transformation's table, and those that the query does not have."""

    keys: tuple[str, ...] = ()
    internal: tuple[str, ...] = ()
    null_keys: bool = False
    """Whether null in a column of the keys is a value as others, as in groups."""


@dataclass(frozen=True, slots=True)
class TransformState:
    """What a snapshot of a transformation's table records. A table that is just created has no position.

    `joined` are the snapshots of the other tables that the batch read, and `met` those that all batches did, which are
    not in the summary. `schemas` are the ids of the schemas with which rows of the tables were read last.
    """

    name: str
    definition: str
    position: Position | None = None
    joined: Mapping[str, int] = field(default_factory=dict)
    batch_id: str = ""
    epoch: int = 0
    rows: Identified = Identified()
    met: JoinHistory = field(default_factory=JoinHistory, compare=False)
    schemas: Mapping[str, int] = field(default_factory=dict)

    def summary(self) -> dict[str, str]:
        said = {
            TRANSFORM: self.name,
            DEFINITION: self.definition,
            BATCH_ID: self.batch_id,
            TRANSFORM_EPOCH: str(self.epoch),
        }
        if self.rows.keys:
            said[GROUPS] = json.dumps(asdict(self.rows))
        if self.schemas:
            said[SCHEMAS] = json.dumps(dict(self.schemas))
        if self.position is None:
            return said
        at = self.position
        text = json.dumps({"table": at.table, "uuid": at.uuid, "epoch": at.epoch, "snapshot": at.snapshot_id})
        return said | {POSITION: text} | ({JOINED: json.dumps(dict(self.joined))} if self.joined else {})


def transform_state(snapshot: Snapshot) -> TransformState | None:
    """Return what a snapshot records about its transformation; None if another writer made it."""
    said = snapshot.summary
    if TRANSFORM not in said:
        return None
    at = json.loads(said[POSITION]) if POSITION in said else None
    return TransformState(
        name=said[TRANSFORM],
        definition=said.get(DEFINITION, ""),
        position=None if at is None else Position(at["table"], at["uuid"], at["epoch"], at["snapshot"]),
        joined=json.loads(said.get(JOINED, "{}")),
        batch_id=said.get(BATCH_ID, ""),
        epoch=int(said.get(TRANSFORM_EPOCH, "0")),
        rows=_identified(said.get(GROUPS)),
        schemas=json.loads(said.get(SCHEMAS, "{}")),
    )


def batch_seconds(snapshot: Snapshot) -> float | None:
    """Return how long the batch of a transformation took; None for any other snapshot.

    It is 0.0 for those that did not store it.
    """
    is_batch = int(snapshot.summary.get(TRANSFORM_EPOCH, "0")) > 0
    return float(snapshot.summary.get(SECONDS, "0")) if is_batch else None


def records_batch(snapshot: Snapshot) -> bool:
    """Return whether a snapshot is a batch of Frazil, of a topic or of a transformation, with the state after it."""
    return carries_state(snapshot) or TRANSFORM in snapshot.summary


def _identified(text: str | None) -> Identified:
    if text is None:
        return Identified()
    value = json.loads(text)
    return Identified(tuple(value["keys"]), tuple(value["internal"]), value["null_keys"])


@dataclass(frozen=True, slots=True)
class TransformTable:
    """The table of a transformation as its outputs see it (`model.outputs.SentTable`)."""

    spec: TransformSpec
    rows: Identified

    @property
    def database(self) -> str:
        return self.spec.database

    @property
    def table(self) -> str:
        return self.spec.table

    @property
    def identifier(self) -> str:
        return self.spec.identifier

    @property
    def source_file(self) -> str:
        return self.spec.source_file

    @property
    def replaces_rows(self) -> bool:
        return bool(self.rows.keys)

    @property
    def has_null_keys(self) -> bool:
        return self.rows.null_keys

    @property
    def internal_columns(self) -> frozenset[str]:
        return frozenset(self.rows.internal)


def is_of_transform(view: TableView) -> bool:
    """Return whether a transformation made the table's newest snapshots."""
    return any(TRANSFORM in snapshot.summary for snapshot in view.ancestry(view.head))
