"""What a table spec says about change events of Debezium (docs/decisions/0040)."""

from __future__ import annotations

from dataclasses import dataclass

PLACEHOLDER = "__debezium_unavailable_value"


@dataclass(frozen=True, slots=True)
class ChangeEvents:
    """How envelopes become changes.

    `soft_deletes`: deleted rows stay, with `__deleted` true. `connector` is a connector whose position in its source's
    log orders the changes; None if the offset does. `kept` are the paths of further fields of the envelope that become
    columns, such as `source.lsn`. `placeholder` is what the connector writes for values that it lacks.
    """

    soft_deletes: bool = False
    connector: str | None = None
    kept: tuple[str, ...] = ()
    placeholder: bytes = PLACEHOLDER.encode()
