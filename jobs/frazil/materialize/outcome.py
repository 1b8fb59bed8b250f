"""How a batch ends, if no error ends it."""

from __future__ import annotations

from dataclasses import dataclass

from frazil.materialize.state import Standing
from frazil.model.delta import Announced
from frazil.model.plan import NothingToDo
from frazil.model.receipt import Receipt


@dataclass(frozen=True, slots=True)
class Published:
    """A batch became visible; `delta` is the result of announcing it to Delta readers, if the spec has any.

    For a group, these are of its ledger, and `rows` are those of all tables.
    """

    receipt: Receipt
    standing: Standing
    delta: Announced | None
    rows: int


@dataclass(frozen=True, slots=True)
class Again:
    """Nothing became visible, and the next plan will differ: a new schema was met, the table was rolled back, or the
    topic changed."""


Outcome = Published | Again | NothingToDo
