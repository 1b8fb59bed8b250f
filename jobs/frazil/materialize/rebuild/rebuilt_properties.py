"""What becomes of a table's properties in its rebuild."""

from __future__ import annotations

from frazil.materialize.dead_letter_checks import ACCEPT_LOST_PROPERTY
from frazil.materialize.hash_key import HASH_KEY_PROPERTY
from frazil.materialize.pause.pausing import ACCEPTED_PROPERTY, DEAD_LETTER_SCHEMAS_PROPERTY
from frazil.materialize.schema.former_names import FORMER_NAMES_PROPERTY
from frazil.materialize.schema.notices import LEFT_OUT_PROPERTY
from frazil.model.masked import MASKED_PROPERTY
from frazil.model.unions import UNIONS_PROPERTY

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
