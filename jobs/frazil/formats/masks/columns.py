"""Apply policies to columns: which types they have then, and what has to be done to their values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain

from frazil.formats.mapped import VALUE, Mapped
from frazil.formats.masks.rules import ENTRIES, ITEMS, NO_RULE, Rule, joined, rules_of
from frazil.formats.tags import TAGS, UNREADABLE
from frazil.model.columns import UNKNOWN, Column, ColumnType, ListOf, MapOf, Scalar, Struct
from frazil.model.policies import KEPT, Policies, Policy, strictest
from frazil.model.schemas import SchemaFinding

_NO_HASH = (Scalar("float"), Scalar("double"))


@dataclass(frozen=True, slots=True)
class Mask:
    """What is done to the values of one type.

    `policy` changes the values themselves. `fields` are the columns of a struct that stay, by their names, with their
    masks; `inner` is for the items of a list or the values of a map. None leaves values as they are.
    """

    policy: Policy | None = None
    fields: Mapping[str, Mask | None] | None = None
    inner: Mask | None = None


@dataclass(frozen=True, slots=True)
class Masked:
    """Columns after the policies, the masks that make them, and why a policy cannot be applied.

    `masks` has an entry for each column that stays. `unmatched` are the paths of policies that name no column and
    have to.
    """

    columns: tuple[Column, ...]
    masks: Mapping[str, Mask | None]
    findings: tuple[SchemaFinding, ...]
    unmatched: tuple[str, ...] = ()

    @property
    def changes_values(self) -> bool:
        return any(mask is not None for mask in self.masks.values())


def mask_columns(mapped: Mapped, policies: Policies) -> Masked:
    """Apply policies to the columns of a writer schema.

    The policy of the empty path is that of a key as a whole: of every field of a record.
    """
    rules, applying = rules_of(policies), _Applying(dict(policies.tags))
    inherited = rules.policy
    if inherited is not None and mapped.record is None:
        rules, inherited = Rule(inside={VALUE: rules}), None
    columns, masks = applying.columns(mapped.columns, rules, inherited, "")
    if mapped.columns and not columns:
        applying.refuse("", "every column is dropped, so that a row would hold nothing of its record")
    named = (path for path, policy in policies.columns if path and not policy.may_be_missing)
    unmatched = tuple(path for path in named if path not in applying.met)
    return Masked(columns, masks, tuple(applying.findings), unmatched)


@dataclass(slots=True)
class _Applying:
    tags: Mapping[str, Policy]
    findings: list[SchemaFinding] = field(default_factory=list)
    met: set[str] = field(default_factory=set)

    def refuse(self, path: str, problem: str) -> None:
        self.findings.append(SchemaFinding(path, problem))

    def columns(
        self, columns: tuple[Column, ...], rules: Rule, inherited: Policy | None, path: str
    ) -> tuple[tuple[Column, ...], dict[str, Mask | None]]:
        kept: list[Column] = []
        masks: dict[str, Mask | None] = {}
        for column in columns:
            here = f"{path}.{column.name}" if path else column.name
            names = _spelled(column)
            rule = rules.spelled_as(names)
            self.met |= {*rule.paths}
            policy = self._policy(column, rule, inherited)
            if policy is not None and policy.treatment == "drop":
                self._name_all(names, rules, path)
                continue
            for steps in rule.lasting():
                self._name_all(names, rules, path, steps)
            by_tag = rule.policy is None and inherited != KEPT
            if by_tag and self.tags and UNREADABLE in column.tags:
                self.refuse(
                    here, f"has {TAGS} that are neither a text nor a list of texts: give it a policy in `columns`"
                )
            decided = _decides(rule) or (policy is not None and not (by_tag and policy == KEPT))
            if column.is_json and not decided:
                self.refuse(here, "is JSON text, which may hold masked values: give it a policy in `columns`")
            passed = None if by_tag and policy == KEPT else policy  # a tag keeps a column, not what others tag in it
            column_type, mask = self._type(column.type, rule, passed, here)
            past = self._unmasked_aliases(column, rules, policy, inherited)
            is_kept = policy == KEPT and not by_tag
            after = replace(column, type=column_type, mask=described(mask), unmasked_aliases=past, kept=is_kept)
            kept.append(after)
            masks[column.name] = mask
        return tuple(kept), masks

    def _name_all(self, names: Sequence[tuple[str, ...]], rules: Rule, path: str, steps: tuple[str, ...] = ()) -> None:
        """Refuse a field that has a name without its policy: a schema with that name alone would unmask it.

        That is a dropped field, which leaves no trace in the table, or one at `steps` inside a column with these names.
        A policy by any spelling of a name is one of the name.
        """
        for spellings in names:
            if rules.of(*spellings).at(steps).decided is None:
                here = joined(path, (spellings[0], *steps))
                policy = rules.of(*chain.from_iterable(names)).at(steps).decided
                masked = policy is not None and policy.treatment != "drop"
                what, key = ("masked", f"{{mask: {policy}}}") if masked else ("dropped", "{drop: true}")
                self.refuse(here, f"is a name of a {what} field: add `{here}: {key}` to `columns` as well")

    def _unmasked_aliases(
        self, column: Column, rules: Rule, policy: Policy | None, inherited: Policy | None
    ) -> tuple[str, ...]:
        named = rules.of(column.name, *chain.from_iterable(_spelled(column)[1:])) is not NO_RULE
        masked_beside = rules.inside or (self.tags and inherited != KEPT)
        return () if named or policy not in (None, KEPT) or not masked_beside else column.aliases

    def _policy(self, column: Column, rule: Rule, inherited: Policy | None) -> Policy | None:
        """The policy of the column's own path, else that of what it is in, else that of its tags.

        One by another spelling of the path adds to those of what it is in and of its tags.
        """
        if rule.policy is not None or inherited == KEPT:
            return rule.decided or inherited
        tagged = tuple(self.tags[tag] for tag in column.tags if tag in self.tags)
        return _strictest(*tagged, inherited, rule.spelled)

    def _type(
        self, column_type: ColumnType, rule: Rule, policy: Policy | None, path: str
    ) -> tuple[ColumnType, Mask | None]:
        match column_type:
            case Struct(columns):
                return self._struct(column_type, columns, rule, policy, path)
            case ListOf(element):
                inside = rule.of(ITEMS)
                element, mask = self._type(element, inside, _policy_inside(inside, policy), path + ITEMS)
                self._keep_items(inside, path + ITEMS)
                return ListOf(element), None if mask is None else Mask(inner=mask)
            case MapOf(key, value):
                return self._map(key, value, rule, policy, path)
            case _:
                return self._leaf(column_type, policy, path)

    def _struct(
        self, struct: Struct, columns: tuple[Column, ...], rule: Rule, policy: Policy | None, path: str
    ) -> tuple[ColumnType, Mask | None]:
        kept, masks = self.columns(columns, rule, policy, path)
        if not kept:
            self.refuse(path, "every field of it is dropped: drop it as a whole")
        unchanged = len(kept) == len(columns) and all(mask is None for mask in masks.values())
        return replace(struct, columns=kept), None if unchanged else Mask(fields=masks)

    def _map(
        self, key: ColumnType, value: ColumnType, rule: Rule, policy: Policy | None, path: str
    ) -> tuple[ColumnType, Mask | None]:
        inside = rule.of(ENTRIES)
        if policy not in (None, KEPT):
            self.refuse(path, f"is a map, whose keys cannot be masked: drop it, or mask its values, {path}{ENTRIES}")
        value, mask = self._type(value, inside, _policy_inside(inside, policy), path + ENTRIES)
        self._keep_items(inside, path + ENTRIES)
        return MapOf(key, value), None if mask is None else Mask(inner=mask)

    def _keep_items(self, rule: Rule, path: str) -> None:
        self.met |= {*rule.paths}
        if rule.decided is not None and rule.decided.treatment == "drop":
            self.refuse(path, "cannot be dropped without what holds it: drop that, or mask the values")

    def _leaf(self, kind: ColumnType, policy: Policy | None, path: str) -> tuple[ColumnType, Mask | None]:
        if policy is None or policy == KEPT:
            return kind, None
        if policy.treatment == "hash":
            if kind in _NO_HASH:
                self.refuse(
                    path,
                    f"has the type {kind}, which cannot be hashed: a float and the same double differ in their digits",
                )
            return Scalar("string"), Mask(policy)
        if policy.treatment == "truncate" and kind not in (Scalar("string"), Scalar("binary"), UNKNOWN):
            self.refuse(path, f"has the type {kind}, and only texts and bytes can be truncated")
        return kind, Mask(policy)


def _spelled(column: Column) -> list[tuple[str, ...]]:
    """Return the names of a column, then its aliases, each followed by its other spellings."""
    names = (column.name, *column.aliases)
    spellings = column.spellings or ((),) * len(names)
    return [(n, *(e for e in others if e != n)) for n, others in zip(names, spellings, strict=True)]


def _strictest(*policies: Policy | None) -> Policy | None:
    return strictest(tuple(each for each in policies if each is not None))


def _policy_inside(rule: Rule, around: Policy | None) -> Policy | None:
    """Return the policy of items or values with this rule, in what has the policy `around`."""
    return rule.policy or _strictest(*(each for each in (around, rule.spelled) if each != KEPT)) or around


def _decides(rule: Rule) -> bool:
    """Return whether a policy names the values of a column by its path, or the items or the values in it."""
    return rule.decided is not None or any(
        _decides(rule.inside[each]) for each in (ITEMS, ENTRIES) if each in rule.inside
    )


def described(mask: Mask | None) -> str:
    """Return the mask of a column in words, without those of columns inside it; empty if there is none."""
    if mask is None or mask.fields is not None:
        return ""
    return str(mask.policy) if mask.policy is not None else described(mask.inner)
