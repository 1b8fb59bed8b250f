"""Which changes of a spec's policies a table can follow: those of columns that it does not have.

Rows keep the masks that they were written with: with other ones, a column would have values of two kinds.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace

from frazil.formats.masks.rules import steps_of
from frazil.materialize.changed_spec.applied_spec import TEXTS, AppliedSpec
from frazil.materialize.changed_spec.judged import NEXT_BATCH, Judged
from frazil.materialize.schema.former_names import FormerNames, former_names_of
from frazil.materialize.schema.name_tree import join
from frazil.model.columns import Column, ColumnType, ListOf, MapOf, Struct, walk
from frazil.model.policed import metadata_name
from frazil.model.policies import KEPT, Policies, Policy
from frazil.model.spec import METADATA_NAMES, MetadataColumns, TableSpec
from frazil.model.spec_change import Fate, SpecChange

KEPT_MASKS = "existing rows keep the masks that they were written with"


def policies_rule(judged: Judged) -> Iterator[SpecChange]:
    """Yield the change of `columns`."""
    had = _recorded(judged.applied, judged.spec.metadata.prefix)
    before, now = had.columns_text(), TEXTS["columns"](judged.spec)
    if before == now:
        return
    change = judged.change("columns", Fate.REFUSED, KEPT_MASKS)
    followed = _how_followed(judged.spec, had, judged.columns, former_names_of(judged.view.properties))
    if followed is not None:
        yield replace(change, fate=Fate.APPLIED, how=f"{NEXT_BATCH}; {followed}")
        return
    if had.columns == judged.spec.policies.columns:
        how = f"equal values would get other hashes than in existing rows, made with the key {had.hash_key}"
        change = replace(change, how=how, given_in="`policies.hash_key` in frazil.yaml")
    if before != judged.applied.keys["columns"]:
        change = replace(change, how=f"the new metadata.prefix is also that of policies; {KEPT_MASKS}")
    yield replace(change, table_has=before or "none", spec_says=now or "none")


def tags_rule(judged: Judged) -> Iterator[SpecChange]:
    """Yield the change of `tags`."""
    before, now = judged.applied.keys["tags"], TEXTS["tags"](judged.spec)
    if json.loads(before or "{}") != json.loads(now or "{}"):
        change = judged.change("tags", Fate.REFUSED, KEPT_MASKS)
        yield replace(change, table_has=before or "none", spec_says=now or "none")


def _recorded(applied: AppliedSpec, prefix: str) -> Policies:
    """Return the policies of the table, with the names that its metadata columns get from a prefix."""
    policies = Policies.of_texts(applied.keys["columns"], applied.keys["tags"])
    for name in METADATA_NAMES if prefix != applied.prefix else ():
        policies = policies.moved(applied.prefix + name, prefix + name)
    return policies


def _how_followed(spec: TableSpec, had: Policies, columns: tuple[Column, ...], former: FormerNames) -> str | None:
    """Return what becomes of changed policies of columns, or None if the table cannot follow them.

    Policies of columns that the table does not have are added and removed, and `mask: none` is added to columns that it
    does not mask. One that drops a column stays: the table has no trace of what it dropped.
    """
    has = spec.policies
    added, gone = (_without(one, other) for one, other in ((has, had), (had, has)))
    if not had or not has or (has.hashes and had.hash_key not in (None, has.hash_key)):
        return None
    if any(policy.treatment == "drop" for policy in gone.values()):
        return None
    kept = [path for path in added if added[path] == KEPT and _is_unmasked(path, spec.metadata, columns, former)]
    new = [path for path in added if path not in kept]
    if any(_is_known(path, spec.metadata, columns, former) for path in (*new, *gone)):
        return None
    said = [f"the table has no {', '.join(new)} yet"] if new else []
    said += [f"the table does not mask {', '.join(kept)}"] if kept else []
    said += [f"{', '.join(gone)} masked no column of the table"] if gone else []
    return "; ".join(said)


def _without(policies: Policies, others: Policies) -> dict[str, Policy]:
    return {path: policy for path, policy in policies.columns if (path, policy) not in others.columns}


def _is_known(path: str, metadata: MetadataColumns, columns: tuple[Column, ...], former: FormerNames) -> bool:
    return metadata_name(path, metadata) is not None or any(_led_to(path, columns, former))


def _is_unmasked(path: str, metadata: MetadataColumns, columns: tuple[Column, ...], former: FormerNames) -> bool:
    """Return whether the table has a column of records at the path, and masks neither it nor what is in it."""
    found = () if metadata_name(path, metadata) is not None else tuple(_led_to(path, columns, former))
    return bool(found) and not any(each.mask for _, each in walk(found))


def _led_to(path: str, columns: tuple[Column, ...], former: FormerNames) -> Iterator[Column]:
    """Yield the columns that a path, in present or former names at each of its steps, leads to."""
    return _columns_at(steps_of(path.rstrip("[]{}")), columns, former, "")


def _columns_at(steps: Sequence[str], columns: tuple[Column, ...], former: FormerNames, at: str) -> Iterator[Column]:
    for column in columns:
        here = join(at, column.name)
        if steps[0] not in (column.name, *former.get(here, ())):
            continue
        if len(steps) == 1:
            yield column
        else:
            yield from _columns_inside(steps[1:], column.type, former, here)


def _columns_inside(steps: Sequence[str], column_type: ColumnType, former: FormerNames, at: str) -> Iterator[Column]:
    match column_type, steps[0]:
        case (ListOf(inner), "[]") | (MapOf(_, inner), "{}"):
            yield from _columns_inside(steps[1:], inner, former, at + steps[0])
        case Struct(columns), _:
            yield from _columns_at(steps, columns, former, at)
        case _:
            return
