"""Epochs: the numbered batches of a table, of Kafka's records or of a transformation."""

from __future__ import annotations

from frazil.model.snapshot import Snapshot
from frazil.model.summary import EPOCH
from frazil.model.transforms import TRANSFORM_EPOCH


def epoch_of(snapshot: Snapshot) -> int | None:
    """Return the number of the batch that a snapshot published, or staged; None if another writer made it."""
    said = snapshot.summary.get(EPOCH, snapshot.summary.get(TRANSFORM_EPOCH))
    return None if said is None else int(said)
