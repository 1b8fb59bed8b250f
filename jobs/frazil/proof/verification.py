"""The results of `verify`: each check with what it proved, and every finding by kind."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from frazil.model.moments import rfc3339
from frazil.model.progress import Counts, ForeignChanges

if TYPE_CHECKING:
    from frazil.proof.chain import Chain

NAMED = 20
"""How many offsets a finding names; of more it gives the number."""


class FindingKind(StrEnum):
    """The kind of a finding. Scripts depend on the names: add new ones, but never change them."""

    NO_TABLE = "no_table"
    """There is no such table, or no dead-letter table beside it."""
    NO_STATE = "no_state"
    """The table's state cannot be reached or read."""
    UNBALANCED = "unbalanced"
    """The one formula does not hold for a partition, or its figures contradict each other."""
    MISSING_FILE = "missing_file"
    """A data file that the table consists of is not there."""
    UNREADABLE_FILE = "unreadable_file"
    """A data file exists and is not Parquet any more, or may not be read."""
    CHANGED_FILE = "changed_file"
    """A data file has other rows or another size than its manifest says."""
    SUMMARY = "summary"
    """The snapshot's summary and its manifests disagree."""
    UNPROVABLE = "unprovable"
    """The table has something that this proof cannot look through."""
    ROW_COUNT = "row_count"
    """The table has more or fewer rows than were written, foreign changes included."""
    BROKEN_CHAIN = "broken_chain"
    """A batch does not begin where the one before it ended, or the batches have not read what the state counts."""
    LOST_ROWS = "lost_rows"
    EXTRA_ROWS = "extra_rows"
    DOUBLED_ROWS = "doubled_rows"
    ALTERED_OFFSETS = "altered_offsets"
    """The number of rows is right and their offsets are not those that were read."""
    OUT_OF_BOUNDS = "out_of_bounds"
    """Rows with offsets that were never read, or of a partition that was never read."""
    DOUBLED_IDENTITY = "doubled_identity"
    """Several rows of one identity, in a table that follows keys."""
    LOST_KEY = "lost_key"
    """The newest record of a key in Kafka is no delete, and the table has no row of the key."""
    STALE_ROW = "stale_row"
    """Kafka has a newer record of a row's key."""
    DELETED_KEY = "deleted_key"
    """Kafka has a newer record that deletes a row's key, or had one."""
    WRONG_INTERVAL = "wrong_interval"
    """An interval of a history overlaps another one of its identity, or contradicts `is_current` or itself."""
    NO_IDENTITY = "no_identity"
    CHANGED_IDENTITY = "changed_identity"
    """A row's identity is not that of its key."""
    DEAD_LETTER_COUNT = "dead_letter_count"
    DOUBLED_DEAD_LETTERS = "doubled_dead_letters"
    ROW_AND_DEAD_LETTER = "row_and_dead_letter"
    """One record is in both places."""
    ROW_IN_TWO_TABLES = "row_in_two_tables"
    """One record is in two tables of a group."""
    LEDGER_LINE = "ledger_line"
    """A table of a group took another number of records than the ledger of the group says."""
    GROUP_APART = "group_apart"
    """A table of a group cannot be brought to the batch of the group's ledger."""
    WRONG_TABLE = "wrong_table"
    """A record is in a table of its group whose route does not take it."""
    REPLAYED_WITHOUT_ROW = "replayed_without_row"
    """A dead letter is marked as replayed, and the table lacks its row."""
    SOURCE_CHANGED = "source_changed"
    """The topic in Kafka is not the one that the table was read from."""
    MISSING_RECORD = "missing_record"
    """Kafka has a record that is neither row nor dead letter nor skipped."""
    NOT_IN_KAFKA = "not_in_kafka"
    """A row or dead letter whose offset Kafka has no record for."""
    DIFFERENT_ROW = "different_row"
    """A row has another value than the record decodes to."""
    DIFFERENT_DEAD_LETTER = "different_dead_letter"
    NO_COLUMN = "no_column"
    """The table has no column for a field of a writer's schema: what records hold there is not in it."""


@dataclass(frozen=True, slots=True)
class Discrepancy:
    """One thing that is wrong: where (`topic-partition`, a path, a snapshot), expected against found.

    `offsets` are those that could be named, at most `NAMED`.
    """

    kind: FindingKind
    where: str
    what: str
    offsets: tuple[int, ...] = ()

    def __str__(self) -> str:
        return f"{self.where}: {self.what}"


@dataclass(frozen=True, slots=True)
class Check:
    """One part of the proof. `says` is what it proved, true where there are no findings."""

    name: str
    says: str
    findings: tuple[Discrepancy, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def passed(self) -> bool:
        return not self.findings


@dataclass(frozen=True, slots=True)
class Verification:
    """The proof of one table, or the findings that contradict it. `chain` is given if its batches were asked for."""

    table: str
    snapshot_id: int | None
    epoch: int | None
    complete_through: datetime | None
    counts: Counts
    checks: tuple[Check, ...]
    foreign: ForeignChanges = field(default_factory=ForeignChanges)
    chain: Chain | None = None

    @property
    def clean(self) -> bool:
        return all(check.passed for check in self.checks)

    @property
    def findings(self) -> tuple[Discrepancy, ...]:
        return tuple(finding for check in self.checks for finding in check.findings)

    @property
    def notes(self) -> tuple[str, ...]:
        return tuple(note for check in self.checks for note in check.notes)

    def to_json(self) -> dict[str, Any]:
        value = asdict(replace(self, chain=None))
        del value["chain"]
        if self.chain is not None:
            value["chain"] = self.chain.to_json()
        value["complete_through"] = None if self.complete_through is None else rfc3339(self.complete_through)
        value["checks"] = [{**each, "passed": not each["findings"]} for each in value["checks"]]
        return {"clean": self.clean, **value}


def first_named(offsets: Iterable[int]) -> tuple[int, ...]:
    """The first few, enough to look at."""
    named: list[int] = []
    for offset in offsets:
        if len(named) == NAMED:
            break
        named.append(int(offset))
    return tuple(named)


def listed_offsets(offsets: Sequence[int], count: int) -> str:
    """`offset 7`, `offsets 7, 8` or `offsets 7, 8, … (1,024 in all)`."""
    text = ", ".join(str(offset) for offset in offsets)
    if count == 1 and len(offsets) == 1:
        return f"offset {text}"
    return f"offsets {text}" if count <= len(offsets) else f"offsets {text}, … ({count:,} in all)"
