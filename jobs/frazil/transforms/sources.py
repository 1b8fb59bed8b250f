"""How the rows of a followed table change: are they only added, and which columns name a row?"""

from __future__ import annotations

from dataclasses import dataclass

from frazil.model.snapshot import TableView
from frazil.model.transforms import TransformSpec
from frazil.transforms.unread import newest_state


@dataclass(frozen=True, slots=True)
class SourceKind:
    """With `changes`, rows are also replaced and deleted. `identity` names at most one row, with all its columns."""

    changes: bool = False
    identity: tuple[str, ...] = ()
    null_keys: bool = False
    """Whether null in a column of the identity is a value as others."""


def kind_of(spec: TransformSpec, view: TableView) -> SourceKind:
    """Return how the rows of the followed table change: as its spec says, or what its transformation records."""
    state = newest_state(view)
    if state is not None:
        return SourceKind(bool(state.rows.keys), state.rows.keys, state.rows.null_keys)
    return SourceKind(spec.source_changes, spec.source_identity)
