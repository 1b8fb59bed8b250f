"""What becomes of a table's properties in its rebuild."""

from __future__ import annotations

from collections.abc import Sequence

from frazil.materialize.dead_letter_checks import ACCEPT_LOST_PROPERTY
from frazil.materialize.group.complete import Places
from frazil.materialize.hash_key import HASH_KEY_PROPERTY
from frazil.materialize.pause.pausing import ACCEPTED_PROPERTY, DEAD_LETTER_SCHEMAS_PROPERTY
from frazil.materialize.rebuild.known_names import with_known_names
from frazil.materialize.schema.former_names import FORMER_NAMES_PROPERTY, former_names_of, former_names_property
from frazil.materialize.schema.notices import LEFT_OUT_PROPERTY
from frazil.materialize.verdicts import loaded
from frazil.model.erasures import ERASURES_PROPERTY
from frazil.model.masked import MASKED_PROPERTY
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


def learn_names(built: Lake, specs: Sequence[TableSpec], here: Places) -> None:
    """Let what is built know what the tables know of former names of its columns. Raises CommitError."""
    for spec in specs:
        view = loaded(built, spec.identifier)
        names = former_names_of(view.properties)
        known = with_known_names(view.columns, names, former_names_of(here[spec.identifier].view.properties))
        if known != names:
            built.set_properties(spec.identifier, put=former_names_property(known))


def keep_erasures(built: Lake, specs: Sequence[TableSpec], here: Places) -> None:
    """Let what is built know which values were erased from the tables. Raises CommitError."""
    for spec in specs:
        properties = here[spec.identifier].view.properties
        if ERASURES_PROPERTY in properties:
            built.set_properties(spec.identifier, put={ERASURES_PROPERTY: properties[ERASURES_PROPERTY]})
