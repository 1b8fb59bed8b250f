"""What a provider decides: which values are unknown until apply, what they become, and what it refuses. Pure.

`Block` is a schema as `terraform providers schema -json` prints it, a value what Terraform sends for it. UNKNOWN
is what Terraform calls "known after apply".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from msgpack import ExtType  # type: ignore[import-untyped]

Block = Mapping[str, Any]
Value = dict[str, Any]

UNKNOWN = ExtType(0, b"\x00")
SEED = "#"
"""In a default: a placeholder for a value that is unique for each object."""
EMPTY: Mapping[str, Any] = {"string": "", "number": 0, "bool": False}


@dataclass(frozen=True, slots=True)
class Rules:
    """What no schema says, by type: `enum`, `match` and `keys` by path, `exactly_one_of`; and values decided for us."""

    rules: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    defaults: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def default(self, path: str, name: str) -> object:
        """Return the default of an attribute of a type or of one of its blocks (`type.block`), or None."""
        return self.defaults.get(path, {}).get(name)


def is_unknown(value: object) -> bool:
    return isinstance(value, ExtType)


def planned(block: Block, value: Value) -> Value:
    """Return the value that `plan` shows: what the provider decides is unknown unless it is set."""
    decided = {name: UNKNOWN for name, one in _attributes(block) if one.get("computed") and value.get(name) is None}
    return value | decided | _inside(block, value, lambda _, inner, one: planned(inner, one))


def applied(path: str, block: Block, value: Value, *, rules: Rules, seed: str) -> Value:
    """The value once it is made: everything unknown is known."""
    decided = {
        name: _decided(rules.default(path, name), one["type"], name, seed)
        for name, one in _attributes(block)
        if is_unknown(value.get(name)) or (value.get(name) is None and one.get("computed"))
    }

    def make(name: str, inner: Block, one: Value) -> Value:
        return applied(f"{path}.{name}", inner, one, rules=rules, seed=seed)

    return value | decided | _inside(block, value, make)


def _decided(default: object, kind: Any, name: str, seed: str) -> object:
    if default is not None:
        return _shaped(_seeded(default, seed), kind)
    return f"{name}-{seed}" if kind == "string" else _shaped(None, kind)


def _seeded(default: Any, seed: str) -> Any:
    if isinstance(default, str):
        return default.replace(SEED, seed)
    if isinstance(default, list):
        return [_seeded(one, seed) for one in default]
    return {key: _seeded(one, seed) for key, one in default.items()} if isinstance(default, dict) else default


def _shaped(given: Any, kind: Any) -> Any:
    """Return the value in exactly the schema's type: objects with all attributes and no others."""
    if isinstance(kind, str):
        return EMPTY.get(kind) if given is None else given
    outer, inner = kind
    if outer == "object":
        known = given or {}
        return {name: _shaped(known[name], of) if name in known else None for name, of in inner.items()}
    if outer == "map":
        return {key: _shaped(one, inner) for key, one in (given or {}).items()}
    return [_shaped(one, inner) for one in given or []]


def refused(kind: str, block: Block, value: Value, rules: Rules) -> Iterator[str]:
    """Yield all reasons for which the provider would refuse this configuration."""
    yield from _decided_by_us(block, value, "")
    own = rules.rules.get(kind, {})
    for group in own.get("exactly_one_of", ()):
        if not any(is_unknown(value.get(one)) for one in group) and sum(_is_set(value.get(one)) for one in group) != 1:
            yield f"exactly one of {', '.join(group)} must be set"
    for path, words in own.get("enum", {}).items():
        yield from _unfit(value, path, words.__contains__, f"expected one of {words}")
    for path, pattern in own.get("match", {}).items():
        yield from _unfit(value, path, re.compile(pattern).search, f"expected it to match {pattern}")
    for name, keys in own.get("keys", {}).items():
        yield from _unfit_keys(name, value.get(name), keys)


def _decided_by_us(block: Block, value: Value, at: str) -> Iterator[str]:
    for name, one in _attributes(block):
        if value.get(name) is not None and one.get("computed") and not one.get("optional"):
            yield f"{at}{name} is decided by the provider and cannot be set"
    for name, nested in block.get("block_types", {}).items():
        for one in _listed(value.get(name)):
            yield from _decided_by_us(nested["block"], one, f"{at}{name}.")


def _unfit(value: Value, path: str, fits: Callable[[Any], object], expected: str) -> Iterator[str]:
    for found in _found(value, path.split(".")):
        if found is not None and not is_unknown(found) and not fits(found):
            yield f"{path}: {expected}, found {found!r}"


def _unfit_keys(name: str, found: Any, keys: Mapping[str, Any]) -> Iterator[str]:
    if not isinstance(found, dict):
        return
    yield from (f"{name}: there is no {key!r}" for key in sorted(found.keys() - keys.keys()))
    for key, rule in keys.items():
        given = found.get(key)
        if given is None and isinstance(rule, str) and rule.startswith("Required"):
            yield f"{name}: {key!r} is missing"
        if given is not None and isinstance(rule, list) and not is_unknown(given) and given not in rule:
            yield f"{name}: {key!r}: expected one of {rule}, found {given!r}"


def _found(value: Any, path: list[str]) -> Iterator[Any]:
    """Yield all values at the end of the path, in lists too."""
    if isinstance(value, list):
        for one in value:
            yield from _found(one, path)
    elif not path:
        yield value
    elif isinstance(value, dict):
        yield from _found(value.get(path[0]), path[1:])


def _inside(block: Block, value: Value, change: Callable[[str, Block, Value], Value]) -> Value:
    """Return the nested blocks, each changed."""
    nested = {name: (value.get(name), one["block"]) for name, one in block.get("block_types", {}).items()}
    return {
        name: [change(name, inner, one) for one in found] if isinstance(found, list) else change(name, inner, found)
        for name, (found, inner) in nested.items()
        if isinstance(found, list | dict)
    }


def _attributes(block: Block) -> Iterator[tuple[str, Mapping[str, Any]]]:
    yield from block.get("attributes", {}).items()


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value] if isinstance(value, dict) else []


def _is_set(value: Any) -> bool:
    return value not in (None, [], False)
