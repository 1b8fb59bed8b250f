"""The names that Kafka Connect gives to types in the schemas that its converters write.

A connector names a type where its values mean more than the type says: days since 1970 are `io.debezium.time.Date` on
an int32. In Avro, the name is beside the type, as `connect.name` and `connect.parameters`. In a schema that the JSON
converter embeds in each record, the properties are called `name` and `parameters`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class ConnectType:
    """A named type. The values of parameters are texts, numbers too."""

    name: str
    parameters: tuple[tuple[str, str], ...] = ()

    def parameter(self, name: str) -> str | None:
        return dict(self.parameters).get(name)

    def number(self, name: str) -> int | None:
        """Return a parameter that is a whole number of at most four digits, or None."""
        text = self.parameter(name)
        return int(text) if text is not None and text.isascii() and text.isdecimal() and len(text) < 5 else None


ConnectTypes: TypeAlias = Mapping[str, ConnectType]
"""The named types of a schema, by dotted path as in `columns.walk`; `[]` is the element of an array."""


def connect_type(raw: Mapping[str, object], name: str, parameters: str) -> ConnectType | None:
    """Return the named type that two properties of a type describe; None if it has no name."""
    given, about = raw.get(name), raw.get(parameters)
    if not isinstance(given, str):
        return None
    texts = about.items() if isinstance(about, dict) else ()
    return ConnectType(given, tuple((str(key), text) for key, text in texts if isinstance(text, str)))
