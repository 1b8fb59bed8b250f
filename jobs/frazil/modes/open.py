"""The write modes, by the word that a table spec has for them."""

from __future__ import annotations

from collections.abc import Mapping

from frazil.model.spec import TableSpec, WriteMode
from frazil.modes.append import APPEND
from frazil.modes.deduplicate import DEDUPLICATE
from frazil.modes.history import HISTORY
from frazil.modes.mode import Mode
from frazil.modes.ordered_history import ORDERED_HISTORY
from frazil.modes.upsert import UPSERT

MODES: Mapping[WriteMode, Mode] = {each.name: each for each in (APPEND, UPSERT, DEDUPLICATE, HISTORY)}


def open_mode(spec: TableSpec) -> Mode:
    """Return the mode that a table spec's `write` names, with its `order_by`."""
    return ORDERED_HISTORY if spec.keeps_history and spec.order_by is not None else MODES[spec.write]
