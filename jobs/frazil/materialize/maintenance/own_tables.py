"""Only tables that Frazil fills by their specs are maintained: the files and snapshots of others are theirs."""

from __future__ import annotations

from frazil.materialize.dead_letter_checks import check_owner
from frazil.materialize.state import check_format, standing
from frazil.materialize.verdicts import loaded
from frazil.model.snapshot import TableView
from frazil.model.spec import TableSpec
from frazil.ports import Lake


def own_rows(lake: Lake, spec: TableSpec) -> TableView:
    """Return the table of a spec as it is now.

    Raises ForeignTableError, ForeignOwnerError, FormatVersionError, StateLostError and CatalogError.
    """
    view = loaded(lake, spec.identifier)
    standing(view, pipeline=spec.pipeline)
    check_format(view)
    return view


def own_dead_letters(lake: Lake, spec: TableSpec) -> TableView | None:
    """Return the dead-letter table of a spec; None if it has none of its own. Raises as `own_rows`."""
    view = None if spec.ledger is not None else lake.load(spec.dead_letters_identifier)
    if view is not None:
        check_owner(view, spec)
        check_format(view)
    return view
