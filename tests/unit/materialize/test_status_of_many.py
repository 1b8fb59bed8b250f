"""Python does not search the metadata of tables that are read for garbage, and does so again after them."""

from __future__ import annotations

import gc
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, cast

import pytest
from grouped_tables import specs

from frazil.model.errors import CatalogError
from frazil.status import TableStatus, table_statuses

NOW = datetime(2026, 3, 1, tzinfo=UTC)


class LakeWithout:
    """A lake that has no table, and calls `on_load` when it is asked for one."""

    def __init__(self, on_load: Callable[[], None]) -> None:
        self._on_load = on_load

    def load(self, identifier: str) -> None:
        self._on_load()


def statuses(on_load: Callable[[], None]) -> list[TableStatus]:
    lake, nothing = cast(Any, LakeWithout(on_load)), cast(Any, None)
    return list(table_statuses(lake, nothing, specs(), delta_logs=nothing, now=NOW))


def test_garbage_is_not_collected_while_tables_are_read() -> None:
    collecting: list[bool] = []

    found = statuses(lambda: collecting.append(gc.isenabled()))

    assert [each.state for each in found] == ["no table", "no table"]
    assert set(collecting) == {False}
    assert gc.isenabled()


def test_garbage_is_collected_again_after_a_catalog_that_does_not_answer() -> None:
    def unreachable() -> None:
        raise CatalogError("the catalog does not answer", hint="")

    with pytest.raises(CatalogError):
        statuses(unreachable)

    assert gc.isenabled()


def test_a_process_that_collects_no_garbage_does_not_begin_to() -> None:
    gc.disable()
    try:
        statuses(lambda: None)

        assert not gc.isenabled()
    finally:
        gc.enable()


def test_garbage_is_collected_again_after_only_some_tables_are_looked_at() -> None:
    nothing = cast(Any, None)
    found = table_statuses(cast(Any, LakeWithout(lambda: None)), nothing, specs(), delta_logs=nothing, now=NOW)

    assert next(found).state == "no table"
    del found  # its only reference

    assert gc.isenabled()
