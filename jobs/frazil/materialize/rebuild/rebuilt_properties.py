"""What becomes of a table's properties in its rebuild."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from frazil.materialize.dead_letter_checks import ACCEPT_LOST_PROPERTY
from frazil.materialize.group.complete import Places
from frazil.materialize.hash_key import HASH_KEY_PROPERTY
from frazil.materialize.pause.pausing import ACCEPTED_PROPERTY, DEAD_LETTER_SCHEMAS_PROPERTY
from frazil.materialize.rebuild.known_names import with_known_names
from frazil.materialize.schema.former_names import FORMER_NAMES_PROPERTY, former_names_of, former_names_property
from frazil.materialize.schema.notices import LEFT_OUT_PROPERTY
from frazil.materialize.state import standing
from frazil.materialize.verdicts import loaded
from frazil.model.erasures import kept_of_erasures
from frazil.model.errors import RebuildError
from frazil.model.masked import MASKED_PROPERTY
from frazil.model.snapshot import TableView
from frazil.model.spec import TableSpec
from frazil.model.unions import UNIONS_PROPERTY
from frazil.ports import Lake

LEFT_BEHIND = (
    FORMER_NAMES_PROPERTY,
    UNIONS_PROPERTY,
    MASKED_PROPERTY,
    HASH_KEY_PROPERTY,
    LEFT_OUT_PROPERTY,
    ACCEPT_LOST_PROPERTY,
)
"""Properties that describe the table's present rows and dead letters: those of the rebuild take their place."""

DECIDED = (ACCEPTED_PROPERTY, DEAD_LETTER_SCHEMAS_PROPERTY)
"""Properties in which an operator has decided about records that the rebuild reads again."""


def decided(properties: Mapping[str, str]) -> dict[str, str]:
    """Return what an operator has decided about records of a table, of its properties."""
    return {name: properties[name] for name in DECIDED if name in properties}


def carry_over(built: Lake, specs: Sequence[TableSpec], here: Places) -> None:
    """Let what is built know what the tables know of former names of its columns, and of what was erased.

    Raises RebuildError as `check_erasures` if it has read records from before an erasure, and CommitError.
    """
    _learn_names(built, specs, here)
    _keep_erasures(built, specs, here)


def _learn_names(built: Lake, specs: Sequence[TableSpec], here: Places) -> None:
    for spec in specs:
        view = loaded(built, spec.identifier)
        names = former_names_of(view.properties)
        known = with_known_names(view.columns, names, former_names_of(here[spec.identifier].view.properties))
        if known != names:
            built.set_properties(spec.identifier, put=former_names_property(known))


def _keep_erasures(built: Lake, specs: Sequence[TableSpec], here: Places) -> None:
    """Note it before the first record is read."""
    for spec in specs:
        view, kept = here[spec.identifier].view, kept_of_erasures(here[spec.identifier].view.properties)
        if not kept:
            continue
        branch = loaded(built, spec.identifier)
        if standing(branch, pipeline=spec.pipeline).state.epoch:
            check_erasures(view, branch)
        else:
            built.set_properties(spec.identifier, put=kept)


def check_erasures(here: TableView, built: TableView) -> None:
    """Raise RebuildError if something was erased from a table since its rebuild began, which has read it again."""
    known = kept_of_erasures(built.properties)
    if any(known.get(name) != text for name, text in kept_of_erasures(here.properties).items()):
        raise RebuildError(
            f"{here.identifier}: `frazil forget` has erased from the table since this rebuild began, which may have"
            " read what was erased; readers see the table as it was",
            hint=f"run `frazil rebuild --discard {here.identifier}`, and the command again",
        )
