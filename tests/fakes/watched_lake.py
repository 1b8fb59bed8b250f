"""The real lake, with a hand on each of its commits: to end the process in the middle of one, or to lose its answer."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, wraps
from typing import Any

from pyiceberg.catalog import Catalog

from frazil.adapters.iceberg.lake import IcebergLake
from frazil.model.settings import CatalogSettings

Commit = Callable[[], object]
Around = Callable[[str, Commit], object]
"""Is given what is committed (`rows publish`, `dead letters stage`, …) and the commit, to carry out or not."""

COMMITS = (
    "create",
    "begin",
    "stage",
    "publish",
    "drop_branches",
    "move_tags",
    "set_properties",
    "change_schema",
    "expire",
    "set_property_at",
    "rewrite",
    "take_rebuilt",
)


def go(name: str, commit: Commit) -> object:
    """No fault."""
    del name
    return commit()


def at_commit(number: int, act: Callable[[], object], *, before: bool) -> Around:
    """Act once, before or after the commit with this number."""
    done = 0

    def around(name: str, commit: Commit) -> object:
        nonlocal done
        done += 1
        if before and done == number:
            act()
        answer = commit()
        if not before and done == number:
            act()
        return answer

    return around


def nothing(name: str) -> None:
    del name


class WatchedLake(IcebergLake):
    """`written` is called when a commit's metadata file exists and the catalog does not point to it yet.

    The server of a REST catalog writes the file: there it is called right before the commit is sent.
    """

    def __init__(
        self, settings: CatalogSettings, *, around: Around = go, written: Callable[[str], None] = nothing
    ) -> None:
        super().__init__(settings)
        self._around = around
        self._written = written
        self.doing = ""

    @cached_property
    def catalog(self) -> Catalog:
        catalog: Any = super().catalog
        commit_table, write_metadata = catalog.commit_table, getattr(catalog, "_write_metadata", None)
        name = ""

        def committing(table: Any, *rest: Any) -> Any:
            nonlocal name
            kind = "dead letters" if table.name()[-1].endswith("__dead_letters") else "rows"
            name = f"{kind} {self.doing}"
            return self._around(name, lambda: sent(table, *rest))

        def sent(*args: Any) -> Any:
            if write_metadata is None:
                self._written(name)
            return commit_table(*args)

        def writing(*args: Any, **named: Any) -> None:
            write_metadata(*args, **named)
            self._written(name)

        catalog.commit_table = committing
        if write_metadata is not None:
            catalog._write_metadata = writing
        return catalog  # type: ignore[no-any-return]


def _named(method: str) -> Callable[..., object]:
    plain = getattr(IcebergLake, method)

    @wraps(plain)
    def act(self: WatchedLake, *args: Any, **named: Any) -> object:
        self.doing = method
        return plain(self, *args, **named)

    return act


for _method in COMMITS:
    setattr(WatchedLake, _method, _named(_method))
