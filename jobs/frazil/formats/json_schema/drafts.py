"""The drafts of JSON Schema, and how they differ for columns."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Draft:
    """One draft. `id_key` names a schema's URI.

    `ref_has_siblings`: the keywords beside `$ref` count. `takes_fractions`: 1.0 is an integer.
    """

    name: str
    id_key: str = "$id"
    ref_has_siblings: bool = False
    takes_fractions: bool = True


DRAFT_4 = Draft("draft-04", id_key="id", takes_fractions=False)
DRAFT_7 = Draft("draft-07")
DRAFT_2019 = Draft("2019-09", ref_has_siblings=True)
_BY_URI = {
    "json-schema.org/draft-04/schema": DRAFT_4,
    "json-schema.org/draft-06/schema": Draft("draft-06"),
    "json-schema.org/draft-07/schema": DRAFT_7,
    "json-schema.org/draft/2019-09/schema": DRAFT_2019,
    "json-schema.org/draft/2020-12/schema": Draft("2020-12", ref_has_siblings=True),
}
UNNAMED = DRAFT_7
"""The draft of schemas that name none, as in Confluent's clients."""


def draft_of(schema: object) -> Draft | None:
    """Return the draft that a document names in `$schema`; None if it is not one of the supported ones."""
    uri = schema.get("$schema") if isinstance(schema, dict) else None
    if uri is None:
        return UNNAMED
    return _BY_URI.get(str(uri).partition("://")[2].rstrip("#")) if isinstance(uri, str) else None
