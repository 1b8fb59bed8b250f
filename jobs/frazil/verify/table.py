"""The proof from the table alone: no record is missing, none is double. It holds after any expiry of snapshots."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from frazil.materialize.changed_spec.applied_spec import as_applied
from frazil.materialize.hash_key import with_keys_read
from frazil.materialize.remember import read_deletes
from frazil.materialize.state import Standing, standing
from frazil.model.errors import StateLostError, TableError
from frazil.model.moments import rfc3339
from frazil.model.progress import Counts
from frazil.model.snapshot import TableView
from frazil.model.spec import TableSpec
from frazil.model.spelling import plural
from frazil.ports import Lake
from frazil.proof.sources import progress_by_source
from frazil.proof.verification import Check, Discrepancy, FindingKind, Verification
from frazil.verify.dead import DeadLetters, check_dead_letters, tally_dead_letters
from frazil.verify.proven import ComparedTable, ProvenTable, count_table
from frazil.verify.scan import Watch

if TYPE_CHECKING:
    from frazil.verify.against_kafka import KafkaSide

NOT_READABLE = (FindingKind.MISSING_FILE, FindingKind.UNREADABLE_FILE, FindingKind.UNPROVABLE)


def unwatched(what: str, done: int, total: int) -> None:
    """Ignore progress."""


def verify_table(
    lake: Lake, spec: TableSpec, *, kafka: KafkaSide | None = None, watch: Watch = unwatched
) -> Verification:
    """Verify the table and return the findings; with `kafka`, also compare it record by record.

    A table that was not made yet has no checks. The table's own names of its metadata columns are used, since a
    changed spec takes effect with the next batch only.

    Raises ServiceError where catalog, storage, broker or registry do not answer.
    """
    view, dead_view = lake.load(spec.identifier), lake.load(spec.dead_letters_identifier)
    if view is None and dead_view is None:
        return Verification(spec.identifier, None, None, None, Counts(), ())
    if view is None:
        what = "the table was dropped, but its dead letters exist"
        return without_state(spec, None, FindingKind.NO_TABLE, what)
    try:
        at = standing(view, pipeline=spec.pipeline)
    except TableError as error:
        return without_state(spec, view.head, FindingKind.NO_STATE, error.what)
    spec = as_applied(spec, view.properties)
    dead = None if dead_view is None else tally_dead_letters(dead_view, at, watch=watch)
    proven = count_table(spec, at, watch=watch).proven({} if dead is None else dead.offsets)
    checks = [*proven.checks, *_dead_letter_checks(spec, at, dead, proven), *remembered_deletes(lake, at)]
    if kafka is not None and dead_view is not None:
        checks += compare([ComparedTable(spec, at, proven)], dead_view, kafka, tuple(checks), watch)
    return verification_of(spec.identifier, at, checks, proven)


def remembered_deletes(lake: Lake, at: Standing) -> Iterator[Check]:
    """Yield the check of the deletes that the table remembers, if it does."""
    remembered = at.state.remembered
    if remembered is None:
        return
    findings: tuple[Discrepancy, ...] = ()
    try:
        read_deletes(lake, at.view, remembered)
    except StateLostError as lost:
        findings = (Discrepancy(FindingKind.NO_STATE, at.view.identifier, lost.what),)
    says = f"{plural(remembered.count, 'delete')} since {rfc3339(remembered.since)}, as the state says"
    yield Check("remembered deletes", says, findings)


def compare(
    tables: Sequence[ComparedTable],
    dead_view: TableView,
    kafka: KafkaSide,
    checks: Sequence[Check],
    watch: Watch,
) -> Iterator[Check]:
    """Compare a table, or the tables of a group with its ledger first, with Kafka. `checks` are those so far.

    Yields one result, or with shapes one for each table.
    """
    from frazil.verify.against_kafka import check_against_kafka  # noqa: PLC0415 - decoders take time to load

    if any(finding.kind in NOT_READABLE for check in checks for finding in check.findings):
        rows = "some of the table's rows" if len(tables) == 1 else "some rows of the tables"
        what = f"not compared with Kafka, because {rows} cannot be read"
        yield Check("kafka", "", (Discrepancy(FindingKind.UNPROVABLE, tables[0].spec.pipeline.name, what),))
        return
    clean = all(check.passed for check in checks)
    keyed = [replace(each, spec=with_keys_read(each.spec, each.at.view.properties)) for each in tables]
    yield from check_against_kafka(keyed, dead_view, kafka, clean=clean, watch=watch)


def verification_of(table: str, at: Standing, checks: Sequence[Check], proven: ProvenTable) -> Verification:
    return Verification(
        table=table,
        snapshot_id=at.view.head,
        epoch=at.state.epoch,
        complete_through=at.state.complete_through,
        counts=at.state.total(),
        checks=tuple(checks),
        foreign=proven.foreign,
    )


def without_state(spec: TableSpec, head: int | None, kind: FindingKind, what: str) -> Verification:
    """Return the result for a table whose state cannot be read."""
    check = Check("state", "the state was read", (Discrepancy(kind, spec.identifier, what),))
    return Verification(spec.identifier, head, None, None, Counts(), (check,))


def _dead_letter_checks(
    spec: TableSpec, at: Standing, dead: DeadLetters | None, proven: ProvenTable
) -> tuple[Check, ...]:
    if dead is None:
        return () if proven.rows is None else (no_dead_letters(spec, at, at.state.total().dead_letters),)
    if proven.rows is None:
        return dead.checks
    progress = progress_by_source(at.state)
    counted = {source: each.counts.dead_letters for source, each in progress.items()}
    followed = {
        source: each.replaced + each.counts.deletes + each.counts.duplicates
        for source, each in progress.items()
        if spec.follows_keys
    }
    rows = {"the table": proven.seen}
    check = check_dead_letters(
        at,
        dead,
        rows,
        counted=counted,
        others_removed=proven.others_removed,
        followed=followed,
        taken_out={source: each.forgotten for source, each in progress.items()},
    )
    return (*dead.checks, check)


def no_dead_letters(spec: TableSpec, at: Standing, counted: int) -> Check:
    """Return the check of a dead-letter table that does not exist, of which `counted` letters should be there."""
    if not at.state.epoch:
        return Check("dead letters", "0 dead letters: nothing has been read yet")
    what = f"the dead letters table is missing, with {plural(counted, 'dead letter')}"
    return Check("dead letters", "", (Discrepancy(FindingKind.NO_TABLE, spec.dead_letters_identifier, what),))
