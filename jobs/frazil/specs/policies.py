"""Convert the policies of a table spec, and find what contradicts them, such as other copies of masked values."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from frazil.model.change_events import kept_name
from frazil.model.errors import SpecError
from frazil.model.policed import metadata_name, policed
from frazil.model.policies import KEPT, Policies, Policy
from frazil.model.secret import NamedKey
from frazil.model.spec import MetadataColumns, TableSpec
from frazil.specs import policy_keys, table_keys
from frazil.specs.keys import Key, Values
from frazil.specs.policy_keys import pairs
from frazil.specs.problems import Problem

_COPIES = ("key", "headers")
"""Metadata that a producer may have put the same values in: kept only if `columns` names it."""
_STATEMENTS = ("source.query", "source.redo_sql")
"""Fields of change events with the SQL statement of a change, which has the values of its row."""


def policies_of(values: Values) -> Policies:
    return Policies(pairs(values[policy_keys.COLUMNS]), pairs(values[policy_keys.TAGS]))


def kept_under(policies: Policies, metadata: MetadataColumns, *, is_given: bool) -> MetadataColumns:
    """Return the metadata columns of a spec that does not name them: with policies, not a key without one."""
    if not policies or is_given:
        return metadata
    named = set(metadata.keep) - {name for name in _COPIES if not policies.inside(metadata.prefix + name)}
    return replace(metadata, keep=tuple(name for name in metadata.keep if name in named))


def policy_problems(values: Values, metadata: MetadataColumns) -> Iterator[Problem]:
    """Yield the contradictions of `columns` and `tags` with the rest of a spec."""
    policies = policies_of(values)
    tags = values.place_of(policy_keys.TAGS)
    for key, each in ((policy_keys.COLUMNS, policies.columns), (policy_keys.TAGS, policies.tags)):
        for name, policy in each:
            if (policy.treatment == "truncate") is not (policy.length > 0):
                what = f"{name}: truncate needs a length, and only truncate has one"
                yield _problem(values, key, what, "write {mask: truncate, length: 4}")
    if policies.tags and values[table_keys.VALUE] not in ("avro", "json_schema", "protobuf"):
        what = f"no effect, because tags of {values[table_keys.VALUE]} values are not read in this release"
        yield Problem(tags, what, "name the columns in `columns`", SpecError)
    for name, policy in policies.tags:
        if policy.treatment == "drop":
            what = f"{name}: a tag cannot drop columns, because a schema without the tag would add them unmasked"
            yield _problem(values, policy_keys.TAGS, what, "write {mask: redact}, or drop the columns in `columns`")
    if not policies:
        return
    yield from _metadata_problems(values, policies, metadata)


def _metadata_problems(values: Values, policies: Policies, metadata: MetadataColumns) -> Iterator[Problem]:
    section = values[table_keys.METADATA]
    prefix, is_given = metadata.prefix, section.is_given(table_keys.KEEP)
    if "value" in metadata.keep:
        what = f"{prefix}value would hold the masked values as they are"
        yield Problem(section.place_of(table_keys.KEEP), what, "remove value from the list", SpecError)
    for name in _COPIES if is_given else ():
        if name in metadata.keep and not policies.inside(prefix + name):
            what = f"{prefix}{name} may hold masked values, and `columns` has no policy for it"
            hint = f"remove {name} from the list, or write {prefix}{name}: {{mask: none}} under `columns` to keep it"
            yield Problem(section.place_of(table_keys.KEEP), what, hint, SpecError)
    for path in _STATEMENTS:
        if path in values[table_keys.CDC_KEEP] and not policies.inside(kept_name(path)):
            what = (
                f"{path} is an SQL statement, which may have masked values, and `columns` has no policy for its column"
            )
            hint = f"remove it from the list, or write {kept_name(path)}: {{mask: redact}} under `columns`"
            yield _problem(values, table_keys.CDC_KEEP, what, hint)
    for path, policy in policies.columns:
        yield from _own_problem(values, path, policy, metadata)


def _own_problem(values: Values, path: str, policy: Policy, metadata: MetadataColumns) -> Iterator[Problem]:
    """Yield why a metadata column cannot have this policy. Keys can have any."""
    name = metadata_name(path, metadata)
    if name is None:
        return
    if name not in _COPIES:
        hint = "leave it out with metadata.keep" if name != "value" else "remove it"
        yield _problem(values, policy_keys.COLUMNS, f"{path} is a metadata column, which has no policy", hint)
    elif name == "headers" and (policy != KEPT or path != f"{metadata.prefix}headers"):
        hint = f"remove headers from metadata.keep, or write {metadata.prefix}headers: {{mask: none}}"
        yield _problem(values, policy_keys.COLUMNS, f"{path}: headers are kept as they are or not at all", hint)
    elif name == "key" and policy.treatment == "drop" and path == f"{metadata.prefix}key":
        hint = "remove the policy: a table with policies keeps no key that has none"
        yield _problem(values, policy_keys.COLUMNS, f"{path} cannot be dropped by a policy", hint)
    elif name == "key" and (name not in metadata.keep or values[table_keys.KEY] == "none"):
        what = f"{path} has no effect: the table keeps no key"
        yield _problem(values, policy_keys.COLUMNS, what, "set `key` and metadata.keep, or remove the policy")


def _problem(values: Values, key: Key[object], what: str, hint: str) -> Problem:
    return Problem(values.place_of(key), what, hint, SpecError)


def with_keys(
    specs: Sequence[TableSpec], hash_key: NamedKey | None, dead_letter_key: NamedKey | None
) -> tuple[TableSpec, ...]:
    """Return the specs with the keys of `frazil.yaml` that they need."""
    return tuple(_with_keys(spec, hash_key, dead_letter_key) for spec in specs)


def _with_keys(spec: TableSpec, hash_key: NamedKey | None, dead_letter_key: NamedKey | None) -> TableSpec:
    named = hash_key.id if hash_key is not None and spec.policies.hashes else None
    policies = replace(spec.policies, hash_key=named)
    spec = replace(spec, erasure_key=hash_key)
    if spec.masked and not policies:
        return replace(spec, dead_letter_key=dead_letter_key)
    return policed(spec, policies, hash_key=hash_key, dead_letter_key=dead_letter_key)


def missing_keys(specs: Sequence[TableSpec]) -> Iterator[tuple[str, str]]:
    """Yield the keys that `frazil.yaml` lacks, by name, and why they are needed."""
    hashing = next((spec for spec in specs if spec.policies.hashes and spec.policies.hash_key is None), None)
    if hashing is not None:
        yield "hash_key", f"{hashing.identifier} has mask: hash"
    masked = next((spec for spec in specs if spec.policies and spec.dead_letter_key is None), None)
    if masked is not None:
        yield "dead_letter_key", f"{masked.identifier} has policies, so its dead letters are encrypted"
