"""How a table's state is stored in an Iceberg snapshot.

Every commit rewrites the table's metadata, which includes the summaries of all snapshots. The summary therefore holds
only a few short keys, independent of the number of partitions. The state and the receipt are a compressed document in
the header of the snapshot's manifest list; the summary has the document's size and checksum.

To store another field, add it with a default to `TableState` or a class that it contains (`model/progress.py`), or to
`Receipt`; older releases then refuse the table. To rename or remove one, or to change what one means, increase
`FORMAT_VERSION` and keep the reader of each earlier version in `_READERS`: tables live longer than releases.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache

from frazil.model.columnar import pack, unpack
from frazil.model.errors import StateLostError
from frazil.model.progress import BatchRef, TableState
from frazil.model.receipt import Receipt
from frazil.model.snapshot import Snapshot

FORMAT_VERSION = "2"
UNRELEASED = 1
"""The last format version before the first release."""

VERSION = "frazil.format-version"
PIPELINE = "frazil.pipeline"
EPOCH = "frazil.epoch"
WRITER = "frazil.writer"
BATCH_ID = "frazil.batch-id"
COMPLETE_THROUGH = "frazil.complete-through"
ROWS_UUID = "frazil.rows-uuid"
"""A summary key in snapshots of a dead-letter table: the UUID of the table of rows in the same batch."""

REPLAYED = "frazil.replayed"
"""A summary key of a replay: how many dead letters it made rows of, or deletes or duplicates."""

FORGOTTEN = "frazil.forgotten"
"""A summary key of an erasure or of a batch that took old rows out: how many rows went."""

REWRITTEN_BY = "frazil.rewritten-by"
"""A summary key of a snapshot in which Frazil wrote files again without their deleted rows: the writer's id."""

REPLACES = "frazil.replaces"
"""A summary key of the snapshot with which a rebuild or a rewind replaces a table: the head of `main` before it."""

STATE_BYTES = "frazil.state-bytes"
STATE_CHECKSUM = "frazil.state-checksum"

_ROLL_BACK = "or roll `main` back to an older Frazil snapshot: docs/operate.md, a damaged state"


@dataclass(frozen=True, slots=True)
class StoredState:
    """A state in the two parts that a snapshot stores: the summary and the document."""

    summary: Mapping[str, str]
    document: bytes


@dataclass(frozen=True, slots=True)
class _Document:
    state: TableState
    receipt: Receipt | None = None


def store(state: TableState, receipt: Receipt | None = None) -> StoredState:
    """Return the stored form of a state and a receipt, which `state_in` and `receipt_in` read."""
    packed = json.dumps(pack(_Document, _Document(state, receipt)), separators=(",", ":"))
    document = zlib.compress(packed.encode(), level=1)
    through = state.complete_through
    summary = {
        VERSION: FORMAT_VERSION,
        **_identity(state),
        **({} if through is None else {COMPLETE_THROUGH: through.isoformat()}),
        **({REPLAYED: str(receipt.replayed)} if receipt is not None and receipt.replayed else {}),
        **({FORGOTTEN: str(receipt.forgotten)} if receipt is not None and receipt.forgotten is not None else {}),
        STATE_BYTES: str(len(document)),
        STATE_CHECKSUM: checksum(document),
    }
    return StoredState(summary, document)


def checksum(document: bytes) -> str:
    """Return the BLAKE2b hash of a document, 16 bytes in hexadecimal."""
    return hashlib.blake2b(document, digest_size=16).hexdigest()


def carries_state(snapshot: Snapshot) -> bool:
    return EPOCH in snapshot.summary


def is_rewrite(snapshot: Snapshot) -> bool:
    """Return whether Frazil only wrote files again in a snapshot: the rows are those of its parent."""
    return snapshot.operation == "replace" and REWRITTEN_BY in snapshot.summary


def batch_of(snapshot: Snapshot) -> BatchRef | None:
    """Return the batch that a snapshot published, or staged, by its summary; None if another writer made it."""
    epoch = snapshot.summary.get(EPOCH)
    return None if epoch is None else BatchRef(int(epoch), snapshot.summary.get(BATCH_ID, ""))


def state_in(snapshot: Snapshot) -> TableState:
    """Return the state in a snapshot.

    Raises StateLostError if an incompatible version of Frazil wrote it, or if the document is damaged or missing.
    """
    return _document_in(snapshot).state


def receipt_in(snapshot: Snapshot) -> Receipt | None:
    """Return the receipt in a snapshot; None in a table's first snapshot. Raises the same errors as `state_in`."""
    return _document_in(snapshot).receipt


def _document_in(snapshot: Snapshot) -> _Document:
    version = _version_of(snapshot)
    document = snapshot.read_document()
    _check_document(snapshot, document)
    try:
        found = _READERS[version](document or b"")
    except (KeyError, ValueError, TypeError, zlib.error) as problem:
        raise StateLostError(
            f"the state of snapshot {snapshot.id} in {snapshot.manifest_list} has the right checksum but cannot be"
            f" parsed: {problem!r}",
            hint="run the Frazil release that wrote the table, or a newer one",
        ) from problem
    _check_identity(snapshot, found.state)
    return found


@lru_cache(maxsize=32)
def _parsed(document: bytes) -> _Document:
    parsed: _Document = unpack(_Document, json.loads(zlib.decompress(document)))
    return parsed


_READERS: Mapping[int, Callable[[bytes], _Document]] = {int(FORMAT_VERSION): _parsed}
"""The reader of each format version that a release wrote; 2 is the first."""


def _version_of(snapshot: Snapshot) -> int:
    """Return the format version of the state. Raises StateLostError if this release does not read it."""
    said = snapshot.summary.get(VERSION)
    version = int(said) if said is not None and said.isdecimal() else None
    if version is not None and version in _READERS:
        return version
    raise StateLostError(
        f"the state of snapshot {snapshot.id} has format version {said}, this Frazil reads"
        f" {', '.join(map(str, _READERS))}",
        hint=_way_out(version),
    )


def _way_out(version: int | None) -> str:
    if version is None:
        return f"another tool changed the summary: restore the table's metadata from a backup, {_ROLL_BACK}"
    if version <= UNRELEASED:
        return "no release wrote this version: drop the table and its dead letters table, then run `frazil materialize`"
    if version < min(_READERS):
        return "run a Frazil release that reads this version; it brings the table to a later one with its next batch"
    return "run the Frazil release that wrote the table, or a newer one"


def _check_document(snapshot: Snapshot, document: bytes | None) -> None:
    expected = f"{snapshot.summary.get(STATE_BYTES)} bytes with checksum {snapshot.summary.get(STATE_CHECKSUM)}"
    found = "none" if document is None else f"{len(document)} bytes with checksum {checksum(document)}"
    if found != expected:
        raise StateLostError(
            f"the state of snapshot {snapshot.id} is damaged: expected {expected} in the header of"
            f" {snapshot.manifest_list}, found {found}",
            hint=f"restore that file from a backup or an earlier version of the object, {_ROLL_BACK}",
        )


def _check_identity(snapshot: Snapshot, state: TableState) -> None:
    """Check that the summary agrees with the document, since some decisions use the summary only."""
    differing = {name for name, text in _identity(state).items() if snapshot.summary.get(name) != text}
    if differing:
        raise StateLostError(
            f"the summary of snapshot {snapshot.id} differs from the state in {snapshot.manifest_list} in"
            f" {', '.join(sorted(differing))}: the metadata was edited by another tool",
            hint=f"restore the table's metadata from a backup, {_ROLL_BACK}",
        )


def _identity(state: TableState) -> dict[str, str]:
    return {
        PIPELINE: state.pipeline,
        EPOCH: str(state.epoch),
        WRITER: state.writer,
        BATCH_ID: state.batch_id,
    }
