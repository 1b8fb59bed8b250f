"""Former names of columns that a table has learnt, and that the newest schemas do not say.

The table knows a column that was renamed twice by both former names. The newest schema may name only the second one as
an alias, so that a rebuild would not place records with the first name.
"""

from __future__ import annotations

from frazil.materialize.schema.former_names import FormerNames
from frazil.materialize.schema.name_tree import join
from frazil.model.columns import Column, walk


def with_known_names(columns: tuple[Column, ...], begun: FormerNames, of_table: FormerNames) -> FormerNames:
    """Return the former names of the `columns` that a rebuild begins with, and those that lead on from them.

    A column that no schema renames has none: a rebuild may part what an alias joined by mistake. A name that a column
    beside it has, or had, stays the name of that.
    """
    taken = {path for path, _ in walk(columns)} | {_beside(path, name) for path in begun for name in begun[path]}
    found = dict(begun)
    for path, names in begun.items():
        here = of_table.get(path, ())
        known = [
            *(here if {*here} & {*names} else ()),
            *(n for each in names for n in of_table.get(_beside(path, each), ())),
        ]
        new = tuple(name for name in dict.fromkeys(known) if _beside(path, name) not in taken)
        taken.update(_beside(path, name) for name in new)
        found[path] = names + new
    return found


def _beside(path: str, name: str) -> str:
    return join(path.rpartition(".")[0], name)
