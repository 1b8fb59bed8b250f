"""What a table spec says about change events of Debezium (docs/decisions/0040)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

PLACEHOLDER = "__debezium_unavailable_value"
_BINLOG = ("__position_file", "__position_pos", "__position_row")
POSITIONS: Mapping[str, tuple[str, ...]] = {
    "postgresql": ("__position_lsn",),
    "mysql": _BINLOG,
    "mariadb": _BINLOG,
    "sqlserver": (
        "__position_commit_lsn",
        "__position_commit_lsn_2",
        "__position_change_lsn",
        "__position_change_lsn_2",
        "__position_event_serial_no",
    ),
    "oracle": ("__position_scn",),
    "mongodb": ("__position_ts_ms", "__position_ord"),
}
"""The columns of longs that have the position of a change in its database's log, the most significant first, by the
connector (docs/decisions/0040)."""


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

    @property
    def position(self) -> tuple[str, ...]:
        """The columns whose values order the changes, the most significant first; none if the offset does."""
        return POSITIONS[self.connector] if self.connector else ()


def kept_name(path: str) -> str:
    """Return the column of a field, as Debezium's `ExtractNewRecordState` names it: `source.lsn` is `__source_lsn`."""
    return "__" + path.replace(".", "_")
