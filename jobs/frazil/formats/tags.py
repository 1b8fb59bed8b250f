"""The tags that a catalog or a person gave to a part of a schema (`confluent:tags`). Protobuf has them in options."""

from __future__ import annotations

from collections.abc import Mapping

TAGS = "confluent:tags"

UNREADABLE = "\0"
"""The tag of a value whose tags are neither a text nor a list of texts: no policy by tag can be applied to it."""


def tags_of(raw: Mapping[str, object]) -> tuple[str, ...]:
    """Return the tags beside the other keys of a type, a field or a schema. One text is one tag."""
    given = raw.get(TAGS)
    if given is None:
        return ()
    texts = given if isinstance(given, list) else [given]
    return tuple(each if isinstance(each, str) else UNREADABLE for each in texts)
