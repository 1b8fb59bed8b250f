"""The tables of the double of Snowflake: external ones that their owner refreshes, and Iceberg tables that it serves.

An external table belongs to the role that owns the external tables to come in its schema, as by GRANT OWNERSHIP ON
FUTURE. What an Iceberg table shows is said from outside (`serve`): the double reads no lake.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from devcloud.snowflake_sql import SqlError, Table, full_name, unknown

_NAME = r"""(?P<name>(?:"(?:[^"]|"")+"|[\w$]+)(?:\.(?:"(?:[^"]|"")+"|[\w$]+))*)"""
_REFRESH = re.compile(rf"ALTER\s+EXTERNAL\s+TABLE\s+(IF\s+EXISTS\s+)?{_NAME}\s+REFRESH", re.IGNORECASE)
_SHOW = re.compile(rf"SHOW\s+EXTERNAL\s+TABLES\s+LIKE\s+'(?P<like>[^']*)'\s+IN\s+SCHEMA\s+{_NAME}", re.IGNORECASE)
_INFORMATION = re.compile(rf"SELECT\s+SYSTEM\$GET_ICEBERG_TABLE_INFORMATION\(\s*'{_NAME}'\s*\)", re.IGNORECASE)
_REFRESHING = re.compile(rf"SELECT\s+SYSTEM\$AUTO_REFRESH_STATUS\(\s*'{_NAME}'\s*\)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Shown:
    """The state of an Iceberg table in Snowflake, and the status of its automatic refresh."""

    metadata_location: str | None
    state: str = "RUNNING"
    reason: str | None = None

    @property
    def information(self) -> Mapping[str, str]:
        status = "success" if self.metadata_location else "failure: no snapshot was ever read"
        return {"metadataLocation": self.metadata_location or "", "status": status}

    @property
    def refreshing(self) -> Mapping[str, str | None]:
        return {"executionState": self.state, "invalidExecutionStateReason": self.reason, "pendingSnapshotCount": "0"}


@dataclass(slots=True)
class Tables:
    """By full name. `refreshed` is what was refreshed, in order. In the `file`, external tables outlive the process."""

    file: Path | None = None
    owners: dict[str, str] = field(default_factory=dict)
    external: set[str] = field(default_factory=set)
    iceberg: dict[str, Shown] = field(default_factory=dict)
    refreshed: list[str] = field(default_factory=list)
    refreshed_on: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.file is not None and self.file.exists():
            kept = json.loads(self.file.read_text(encoding="utf-8"))
            self.owners, self.external = kept["owners"], set(kept["external"])

    def own(self, schema: str, role: str) -> None:
        """The external tables of a schema, also those to come."""
        self.owners[full_name(schema)] = role.upper()
        self._keep()

    def add_external(self, name: str) -> None:
        self.external.add(full_name(name))
        self._keep()

    def drop(self, name: str) -> None:
        self.external.discard(full_name(name))
        self._keep()

    def serve(self, name: str, shown: Shown) -> None:
        self.iceberg[full_name(name)] = shown

    def execute(self, role: str, text: str) -> Table | None:
        """Run a statement about tables; return None for others."""
        if found := _REFRESH.fullmatch(text):
            return self._refresh(role, full_name(found["name"]))
        if found := _SHOW.fullmatch(text):
            return self._listed(f"{full_name(found['name'])}.{found['like']}")
        if found := _INFORMATION.fullmatch(text):
            return _answer("SYSTEM$GET_ICEBERG_TABLE_INFORMATION", self._shown(found["name"]).information)
        if found := _REFRESHING.fullmatch(text):
            return _answer("SYSTEM$AUTO_REFRESH_STATUS", self._shown(found["name"]).refreshing)
        return None

    def _refresh(self, role: str, name: str) -> Table:
        if name not in self.external:
            raise unknown("External table", name)
        if self.owners.get(name.rpartition(".")[0]) != role:
            words = f"SQL access control error:\nInsufficient privileges to operate on external table '{name}'"
            raise SqlError("003001", "42501", words)
        self.refreshed.append(name)
        self.refreshed_on[name] = datetime.now(UTC).isoformat()
        return Table(("file", "status", "description"), [])

    def _listed(self, name: str) -> Table:
        """Return the columns that Frazil reads of the answer to SHOW."""
        there = [[name.rpartition(".")[2], self.refreshed_on.get(name)]] if name in self.external else []
        return Table(("name", "last_refreshed_on"), [list(row) for row in there])

    def _shown(self, written: str) -> Shown:
        name = full_name(written)
        if name not in self.iceberg:
            raise unknown("Table", name)
        return self.iceberg[name]

    def _keep(self) -> None:
        if self.file is not None:
            written = self.file.with_suffix(".new")
            written.write_text(json.dumps({"owners": self.owners, "external": sorted(self.external)}), encoding="utf-8")
            written.replace(self.file)


def _answer(column: str, told: Mapping[str, str | None]) -> Table:
    return Table((column,), [[json.dumps(told)]])
