"""The real Delta logs, with a hand on each write: before it, after it, and between its versions where it has two."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from frazil.adapters.delta import log
from frazil.adapters.delta.log import DeltaRsLogs
from frazil.model.delta import LogWrite
from frazil.model.secret import SettingValue


class WatchedLogs(DeltaRsLogs):
    """`reach` gets `before log`, `inside log` (its new columns are there, its files are not) and `after log`."""

    def __init__(self, storage: Mapping[str, SettingValue], reach: Callable[[str], None]) -> None:
        super().__init__(storage)
        self._reach = reach

    def write(self, location: str, write: LogWrite) -> None:
        put = log._put

        def inside(*what: object) -> None:
            self._reach("inside log")
            put(*what)  # type: ignore[arg-type]

        self._reach("before log")
        log._put = inside
        try:
            super().write(location, write)
        finally:
            log._put = put
        self._reach("after log")
