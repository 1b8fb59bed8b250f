"""The write modes, by the word that a table spec has for them."""

from __future__ import annotations

from collections.abc import Mapping

from frazil.model.spec import WriteMode
from frazil.modes.append import APPEND
from frazil.modes.deduplicate import DEDUPLICATE
from frazil.modes.history import HISTORY
from frazil.modes.mode import Mode
from frazil.modes.upsert import UPSERT

MODES: Mapping[WriteMode, Mode] = {each.name: each for each in (APPEND, UPSERT, DEDUPLICATE, HISTORY)}


def open_mode(write: WriteMode) -> Mode:
    """Return the mode that a table spec's `write` names."""
    return MODES[write]
