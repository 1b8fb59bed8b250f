"""A table spec's policies, given to what decodes values and keys."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from frazil.model.policies import KEPT, Policies, Policy, strictest
from frazil.model.secret import NamedKey
from frazil.model.spec import METADATA_NAMES, MetadataColumns, TableSpec


def policed(
    spec: TableSpec, policies: Policies, *, hash_key: NamedKey | None, dead_letter_key: NamedKey | None
) -> TableSpec:
    """Return the spec with these policies and keys.

    The decoders of values get the policies of the record's own columns, and those of keys the policies of the key's
    column, with paths inside it. Tags count for both.
    """
    if not policies:
        return spec
    key = spec.metadata.prefix + "key"
    of_key = tuple((path[len(key) :].lstrip("."), policy) for path, policy in policies.inside(key))
    own = tuple(each for each in policies.columns if metadata_name(each[0], spec.metadata) is None)
    hash_key = hash_key if policies.hashes else None
    values = replace(spec.value_settings, policies=replace(policies, columns=own), hash_key=hash_key)
    keys = replace(spec.key_settings, policies=replace(policies, columns=of_key), hash_key=hash_key)
    return replace(
        spec,
        policies=policies,
        value_settings=values,
        key_settings=keys if of_key else spec.key_settings,
        dead_letter_key=dead_letter_key,
    )


def policed_by_all(specs: Sequence[TableSpec]) -> TableSpec:
    """Return the first of the specs of a group, with the policies of all of them: the strictest for each path.

    For what shows records of the group before they have a table.
    """
    first = specs[0]
    named = {path for spec in specs for path, _ in spec.policies.columns}
    columns = tuple((path, _strictest(path, specs)) for path in sorted(named))
    policies = replace(first.policies, columns=columns)
    keys = [key for spec in specs for key in (spec.value_settings.hash_key, spec.key_settings.hash_key) if key]
    return policed(first, policies, hash_key=next(iter(keys), None), dead_letter_key=first.dead_letter_key)


def _strictest(path: str, specs: Sequence[TableSpec]) -> Policy:
    given = tuple(policy for spec in specs for of, policy in spec.policies.columns if of == path)
    return strictest(given) or KEPT


def metadata_name(path: str, metadata: MetadataColumns) -> str | None:
    """Return the name, without the prefix, of the metadata column that a path leads to or into, or None."""
    at = Policies(columns=((path, KEPT),))
    return next((name for name in METADATA_NAMES if at.inside(metadata.prefix + name)), None)
