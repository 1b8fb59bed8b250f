"""Whether a query gives other values for a row once a column has a wider type: decided from the analyzed plan.

Integers and decimals have the same sums, products and texts in a wider type; their hashes and shifts differ. Numbers of
32 bits are rounded otherwise than those of 64, so only what compares, chooses or passes on a float is the same.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field

from frazil.adapters.iceberg.widened import Widened, schema_id_of, widened_since
from frazil.model.errors import TransformHaltedError
from frazil.model.queries import VIEW, Expression, Operator
from frazil.model.transforms import TransformSpec, TransformState
from frazil.transforms.tables import TableRows

CHOOSES = {"Alias", "AttributeReference", "OuterReference", "GetStructField", "GetArrayItem", "GetArrayStructFields",
           "GetMapValue", "ElementAt", "CreateNamedStruct", "CreateArray", "CreateMap", "Explode", "PosExplode", "Size",
           "Coalesce", "Nvl", "Nvl2", "NullIf", "NullIfZero", "ZeroIfNull", "If", "CaseWhen", "Greatest", "Least",
           "Abs", "UnaryMinus", "UnaryPositive", "IsNull", "IsNotNull", "IsNaN", "And", "Or", "Not", "ArrayContains",
           "EqualTo", "EqualNullSafe", "LessThan", "LessThanOrEqual", "GreaterThan", "GreaterThanOrEqual", "Between",
           "In", "InSubquery", "ListQuery", "Exists", "ScalarSubquery", "AggregateExpression", "Count", "Min", "Max",
           "With", "CommonExpressionDef", "CommonExpressionRef"}  # fmt: skip
"""Expressions that give the same value for each type of a number."""

COMPUTES = {"Add", "Subtract", "Multiply", "Divide", "IntegralDivide", "Remainder", "Pmod", "Sum", "Average",
            "Round", "BRound", "Floor", "Ceil", "Signum", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "BitwiseNot",
            "StructsToJson"}  # fmt: skip
"""Expressions that give the same value for a wider integer or decimal: what does not fit is an error."""

_EXACT_OF_FLOATS = {"double", "float", "int", "bigint", "boolean"}
"""The types to which a float and the same value as a double are cast alike."""

_DECIMAL, _WIDEST = "decimal(", "decimal(38,"
"""The beginnings of the types of decimals, and of a result that may have lost digits, more of them with wider operands.

Sums and averages keep the scale that follows from that of their values. The scale of a quotient follows from the scale
of the dividend and the digits of the divisor.
"""

_SCALE = re.compile(r"decimal\(\d+,(\d+)\)")


@dataclass(frozen=True, slots=True, order=True)
class Widening:
    """A column of a table, as `table.column`, and its types before and now, in Iceberg's words."""

    column: str
    before: str
    now: str

    def __str__(self) -> str:
        return f"{self.column} from {self.before} to {self.now}"


def check_values_kept(spec: TransformSpec, plan: Operator, tables: Sequence[TableRows], state: TransformState) -> None:
    """Raise TransformHaltedError if the query gives rows that were read other values, since a column was widened."""
    schemas = schemas_before(state, tables)
    widened = {each.name: widened_since(each.view, schemas.get(each.view.identifier)) for each in tables}
    other = other_values(plan, widened) if any(widened.values()) else {}
    if not other:
        return
    columns = sorted(frozenset().union(*other.values()))
    raise TransformHaltedError(
        f"{spec.identifier}: columns that the transformation {spec.name} computes with have a wider type now"
        f" ({', '.join(map(str, columns))}), so it would give its earlier rows other values: {', '.join(other)}",
        hint=f"run `frazil transform rebuild {spec.name}`, which computes all rows again",
    )


def schemas_now(tables: Sequence[TableRows]) -> dict[str, int]:
    """Return the ids of the schemas with which a batch reads its tables."""
    return {each.view.identifier: schema_id_of(each.view) for each in tables}


def schemas_before(state: TransformState, tables: Sequence[TableRows]) -> dict[str, int]:
    """Return the ids of the schemas with which rows were read last.

    A state of an earlier release does not have them: those of the snapshots that it names.
    """
    at = state.position
    snapshots = {**state.joined, **({} if at is None else {at.table: at.snapshot_id})}
    found = dict(state.schemas)
    for each in tables:
        snapshot = each.view.snapshots.get(snapshots.get(each.view.identifier, -1))
        if snapshot is not None and snapshot.schema_id is not None:
            found.setdefault(each.view.identifier, snapshot.schema_id)
    return found


def other_values(plan: Operator, widened: Mapping[str, Widened]) -> Mapping[str, frozenset[Widening]]:
    """Return the expressions that give other values, as text, and the columns of views whose widening is the cause."""
    reading = _Reading(widened)
    reading.operator(plan)
    return reading.other


@dataclass(slots=True)
class _Reading:
    widened: Mapping[str, Widened]
    other: dict[str, frozenset[Widening]] = field(default_factory=dict)
    _of_columns: dict[int, frozenset[Widening]] = field(default_factory=dict)
    """What was widened, by the ids of columns whose type follows from it."""
    _of_common: dict[int, frozenset[Widening]] = field(default_factory=dict)
    """The same of expressions that are computed once, by ids of their own."""

    def operator(self, plan: Operator) -> None:
        for child in (*plan.children, *plan.subqueries):
            self.operator(child)
        if plan.kind == VIEW:
            types = self.widened.get(plan.name, {})
            for column in plan.output:
                wider = (Widening(f"{plan.name}.{column.name}", *both) for both in types.get(column.name, ()))
                self._of_columns[column.id] = frozenset(wider)
        there = {column.id for child in plan.children for column in child.output}
        computed = _all(map(self._expression, plan.expressions))
        if plan.kind == "Expand":  # of an UNPIVOT, for instance
            computed = self._unless_cut("UNPIVOT", computed, plan.expressions)
        for place, column in enumerate(plan.output):
            if plan.kind in ("Union", "Intersect", "Except"):
                found = _all(self._of(child.output[place].id) for child in plan.children)
                cast = (child.expressions[place] for child in plan.children if child.kind == "Project")
                self._of_columns[column.id] = self._unless_cut(f"{plan.kind.upper()} of {column.name}", found, cast)
            elif column.id not in there:  # of an explode, for instance
                self._of_columns.setdefault(column.id, computed)

    def _unless_cut(
        self, text: str, found: frozenset[Widening], expressions: Iterable[Expression]
    ) -> frozenset[Widening]:
        """Return what was widened of values that Spark casts to one type, or none if they are not the same in it.

        They are the same if no cast makes a scale smaller: 38 digits are enough for all, and so were fewer before.
        """
        if not found or not any(_loses_digits(each) for whole in expressions for each in whole.walk()):
            return found
        self.other[text] = found
        return frozenset()

    def _expression(self, each: Expression) -> frozenset[Widening]:
        """Return what was widened of the columns from which the type of an expression follows."""
        operands = [self._expression(child) for child in _defined_first(each)]
        found = _all(operands)
        if each.plan is not None:
            found |= _all(self._of(column.id) for column in each.plan.output)
        if each.kind == "AttributeReference":
            found = self._of(each.id)
        if each.kind == "CommonExpressionRef" and each.id is not None:
            found = self._of_common.get(each.id, frozenset())
        has_wider_divisor = each.kind == "Divide" and each.type.startswith(_DECIMAL) and bool(operands[-1])
        if found and (has_wider_divisor or not _is_same(each, {widening.before for widening in found})):
            self.other[re.sub(r"#\d+L?", "", each.text)] = found
            found = frozenset()
        if each.type == "boolean" or (each.kind == "Cast" and (each.is_explicit or _DECIMAL not in each.type)):
            found = frozenset()  # Spark casts an integer beside a decimal to one, whose digits follow from its type
        if each.kind == "Alias" and each.id is not None:
            self._of_columns[each.id] = found
        if each.kind == "CommonExpressionDef" and each.id is not None:
            self._of_common[each.id] = found
        return found

    def _of(self, column: int | None) -> frozenset[Widening]:
        return frozenset() if column is None else self._of_columns.get(column, frozenset())


def _defined_first(each: Expression) -> Sequence[Expression]:
    """Return the operands, with those that others of them mean before these."""
    return each.children[::-1] if each.kind == "With" else each.children


def _all(found: Iterable[frozenset[Widening]]) -> frozenset[Widening]:
    return frozenset().union(*found)


def _is_same(each: Expression, types: Set[str]) -> bool:
    """Return whether an expression of such types gives the same value with wider ones."""
    if each.kind in CHOOSES:
        return not any(map(_loses_digits, _of_one_type(each)))
    if each.kind == "Cast":
        return "float" not in types or each.type in _EXACT_OF_FLOATS
    loses_digits = each.type.startswith(_WIDEST) and each.kind not in ("Sum", "Average")
    return each.kind in COMPUTES and "float" not in types and not loses_digits


def _of_one_type(each: Expression) -> Sequence[Expression]:
    """Return the operands of an expression of which Spark casts some to one type."""
    if each.kind in ("GetArrayItem", "GetMapValue", "CreateNamedStruct", "AggregateExpression"):
        return ()
    return each.children[1:] if each.kind == "ElementAt" else each.children  # an index, or a key beside those of a map


def _loses_digits(each: Expression) -> bool:
    """Return whether a cast that Spark added makes the scale of a decimal smaller, as only those to 38 digits do."""
    if each.kind != "Cast" or each.is_explicit or _WIDEST not in each.type:
        return False
    (before, now) = (_SCALE.findall(type_) for type_ in (each.children[0].type, each.type))
    return bool(before) and (len(before) != len(now) or any(int(b) > int(n) for b, n in zip(before, now, strict=True)))
