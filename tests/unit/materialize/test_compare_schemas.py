"""Which changes a writer's schema asks of a table: a truth table, and what must hold for any two schemas."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from dataclasses import replace
from typing import get_args

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from frazil.adapters.iceberg.types import from_schema, to_schema
from frazil.formats.arrow import arrow_schema
from frazil.formats.avro.mapping import map_schema
from frazil.formats.avro.schema import parse_schema
from frazil.formats.placement import homeless, place_by_name
from frazil.materialize.schema.compare import Evolution, aliases_of, applied, compare, refusal
from frazil.materialize.schema.former_names import FormerNames, former_names_of, former_names_property
from frazil.model.changes import AddColumn, Change, RenameColumn, WidenType
from frazil.model.columns import Column, ColumnType, Decimal, Fixed, ListOf, MapOf, Scalar, Struct, walk
from frazil.model.schemas import SchemaFinding
from frazil.model.spec import OnIncompatibleSchema
from frazil.model.unions import UNIONS_PROPERTY, marked, unions_property

INT, LONG, FLOAT, DOUBLE, TEXT = (Scalar(n) for n in ("int", "long", "float", "double", "string"))  # type: ignore[arg-type]


def col(name: str, column_type: ColumnType = LONG, *aliases: str) -> Column:
    return Column(name, column_type, aliases)


def struct(*columns: Column) -> Struct:
    return Struct(columns)


def changes(wanted: tuple[Column, ...], have: tuple[Column, ...], former: FormerNames | None = None) -> list[Change]:
    evolution = compare(wanted, have, former or {})
    assert evolution.findings == ()
    return list(evolution.changes)


def findings(wanted: tuple[Column, ...], have: tuple[Column, ...], former: FormerNames | None = None) -> dict[str, str]:
    return {finding.path: finding.problem for finding in compare(wanted, have, former or {}).findings}


@pytest.mark.parametrize(
    ("wanted", "have", "expected"),
    [
        (col("a"), col("a"), []),
        (col("a", LONG), col("a", INT), [WidenType("a", INT, LONG)]),
        (col("a", DOUBLE), col("a", FLOAT), [WidenType("a", FLOAT, DOUBLE)]),
        (col("a", INT), col("a", LONG), []),
        (col("a", FLOAT), col("a", DOUBLE), []),
        (col("a", Decimal(12, 2)), col("a", Decimal(10, 2)), [WidenType("a", Decimal(10, 2), Decimal(12, 2))]),
        (col("a", Decimal(8, 2)), col("a", Decimal(10, 2)), []),
        (col("a", ListOf(LONG)), col("a", ListOf(INT)), [WidenType("a[]", INT, LONG)]),
        (col("a", MapOf(TEXT, LONG)), col("a", MapOf(TEXT, INT)), [WidenType("a{}", INT, LONG)]),
        (col("a", struct(col("b", LONG))), col("a", struct(col("b", INT))), [WidenType("a.b", INT, LONG)]),
        (col("a", struct(col("b"), col("c"))), col("a", struct(col("b"))), [AddColumn("a.c", LONG)]),
        (
            col("a", ListOf(struct(col("b"), col("c")))),
            col("a", ListOf(struct(col("b")))),
            [AddColumn("a[].c", LONG)],
        ),
        (
            col("a", MapOf(TEXT, ListOf(struct(col("b"), col("c"))))),
            col("a", MapOf(TEXT, ListOf(struct(col("b"))))),
            [AddColumn("a{}[].c", LONG)],
        ),
        (col("a", struct(col("b"))), col("a", struct(col("b"), col("c"))), []),
        (col("b"), col("a"), [AddColumn("b", LONG)]),
        (col("b", LONG, "a"), col("a"), [RenameColumn("a", "b")]),
        (col("A", LONG, "a"), col("a"), [RenameColumn("a", "A")]),
        (col("b", LONG, "a"), col("a", INT), [RenameColumn("a", "b"), WidenType("a", INT, LONG)]),
        (col("b", LONG, "x", "a"), col("a"), [RenameColumn("a", "b")]),
        (
            col("a", struct(col("c", LONG, "b"))),
            col("a", struct(col("b"))),
            [RenameColumn("a.b", "c")],
        ),
        (
            col("b", struct(col("y", LONG, "x"), col("z")), "a"),
            col("a", struct(col("x", INT))),
            [RenameColumn("a", "b"), RenameColumn("a.x", "y"), WidenType("a.x", INT, LONG), AddColumn("a.z", LONG)],
        ),
        (
            col("b", ListOf(struct(col("y", LONG, "x"))), "a"),
            col("a", ListOf(struct(col("x")))),
            [RenameColumn("a", "b"), RenameColumn("a[].x", "y")],
        ),
    ],
)
def test_a_safe_difference_is_a_change(wanted: Column, have: Column, expected: list[Change]) -> None:
    assert changes((wanted,), (have,)) == expected


@pytest.mark.parametrize(
    ("wanted", "have", "path", "problem"),
    [
        (TEXT, LONG, "a", "is string in the writer's schema, the table has long"),
        (INT, FLOAT, "a", "is int in the writer's schema, the table has float"),
        (LONG, DOUBLE, "a", "is long in the writer's schema, the table has double"),
        (Scalar("date"), Scalar("timestamptz"), "a", "is date in the writer's schema, the table has timestamptz"),
        (
            Scalar("timestamp"),
            Scalar("timestamptz"),
            "a",
            "is timestamp in the writer's schema, the table has timestamptz",
        ),
        (Decimal(10, 3), Decimal(10, 2), "a", "is decimal(10, 3) in the writer's schema, the table has decimal(10, 2)"),
        (Decimal(12, 3), Decimal(10, 2), "a", "is decimal(12, 3) in the writer's schema, the table has decimal(10, 2)"),
        (Fixed(8), Fixed(4), "a", "is fixed(8) in the writer's schema, the table has fixed(4)"),
        (Fixed(8), Scalar("binary"), "a", "is fixed(8) in the writer's schema, the table has binary"),
        (struct(col("b")), LONG, "a", "is struct<b: long> in the writer's schema, the table has long"),
        (LONG, struct(col("b")), "a", "is long in the writer's schema, the table has struct<b: long>"),
        (ListOf(LONG), LONG, "a", "is list<long> in the writer's schema, the table has long"),
        (
            ListOf(LONG),
            MapOf(TEXT, LONG),
            "a",
            "is list<long> in the writer's schema, the table has map<string, long>",
        ),
        (MapOf(LONG, LONG), MapOf(INT, LONG), "a", "the map's keys are long, the table has int"),
        (
            ListOf(struct(col("b", TEXT))),
            ListOf(struct(col("b"))),
            "a[].b",
            "is string in the writer's schema, the table has long",
        ),
        (MapOf(TEXT, TEXT), MapOf(TEXT, LONG), "a{}", "is string in the writer's schema, the table has long"),
        (struct(col("B")), struct(col("b")), "a.B", "differs only in letter case from the table's column b"),
    ],
)
def test_an_unsafe_difference_is_a_finding_with_its_path(
    wanted: ColumnType, have: ColumnType, path: str, problem: str
) -> None:
    assert findings((col("a", wanted),), (col("a", have),)) == {path: problem}


def test_all_findings_come_at_once_and_safe_changes_beside_them() -> None:
    have = (col("a"), col("b", struct(col("c"))), col("d", ListOf(LONG)), col("e", INT))
    wanted = (col("a", TEXT), col("b", struct(col("c", TEXT), col("C"))), col("d", ListOf(TEXT)), col("e"))

    evolution = compare(wanted, have, {})

    assert [finding.path for finding in evolution.findings] == ["a", "b.c", "b.C", "d[]"]
    assert list(evolution.changes) == [WidenType("e", INT, LONG)]
    assert refusal("lake.t", 7, evolution.findings).what.count("\n") >= 4


@pytest.mark.parametrize("twin", ["Total", "TOTAL"])
def test_a_name_that_differs_only_in_case_is_refused_whether_it_is_new_or_a_rename(twin: str) -> None:
    have = (col("total"), col("sum"))
    twins = {twin: "differs only in letter case from the table's column total"}

    assert findings((col(twin),), have) == twins
    assert findings((col(twin, LONG, "sum"),), have) == twins


# --- renames and writers of before ----------------------------------------------------------------------------------


def evolve(have: tuple[Column, ...], *writers: tuple[Column, ...]) -> tuple[tuple[Column, ...], FormerNames]:
    """The table after these writers, one after the other."""
    former: FormerNames = aliases_of(have)
    for wanted in writers:
        evolution = compare(wanted, have, former)
        assert evolution.findings == ()
        have, former = applied(have, evolution.changes), evolution.former_names
    return have, former


def test_a_writer_of_before_a_rename_still_fits() -> None:
    old = (col("a"),)
    have, former = evolve(old, (col("b", LONG, "a"),))

    assert (have, former) == ((col("b"),), {"b": ("a",)})
    assert changes(old, have, former) == []


def test_former_names_follow_their_column_through_renames_at_every_level() -> None:
    first = (col("a", struct(col("x"))),)
    have, former = evolve(
        first,
        (col("a", struct(col("y", LONG, "x"))),),
        (col("b", struct(col("y", LONG, "x")), "a"),),
        (col("c", struct(col("z", LONG, "y")), "b"),),
    )

    assert have == (col("c", struct(col("z"))),)
    assert former == {"c": ("a", "b"), "c.z": ("x", "y")}
    assert changes(first, have, former) == []


TAKEN = "is a former name or an alias of the column {}: older records use it for that column"


def test_a_field_may_not_take_a_former_name_of_the_column_beside_it() -> None:
    have, former = evolve((col("a"),), (col("b", LONG, "a"),))

    assert findings((col("a"), col("b", LONG, "a")), have, former) == {"a": TAKEN.format("b")}


def test_a_rename_to_a_former_name_of_a_sibling_is_refused() -> None:
    """Otherwise a late record of the first schema puts its `id` into the other column, and loses its `uuid`."""
    have, former = evolve((col("id"), col("uuid")), (col("legacy_id", LONG, "id"), col("uuid")))

    assert findings((col("legacy_id"), col("id", LONG, "uuid")), have, former) == {"id": TAKEN.format("legacy_id")}


def test_a_name_given_up_by_a_rename_is_refused_at_once_and_not_only_after_a_restart() -> None:
    have, former = evolve((col("e", DOUBLE),), (col("f", DOUBLE, "e"),))

    assert findings((col("f", DOUBLE), col("e", INT)), have, former) == {"e": TAKEN.format("f")}


def test_a_field_may_not_take_an_alias_that_another_column_holds() -> None:
    have, former = evolve((col("p", LONG, "a"),))

    assert former == {"p": ("a",)}
    assert findings((col("p"), col("a")), have, former) == {"a": TAKEN.format("p")}
    assert findings((col("b", struct(col("p"), col("a"))),), (col("b", struct(col("p"))),), {"b.p": ("a",)}) == {
        "b.a": TAKEN.format("b.p").replace("column b.p", "column p")
    }


def test_a_chain_of_renames_in_one_schema_is_refused() -> None:
    problem = "is the renamed column a, and takes the name of the column that is renamed to c"

    assert findings((col("b", LONG, "a"), col("c", LONG, "b")), (col("a"), col("b"))) == {"b": problem}


def test_a_field_beside_one_that_has_the_column_of_its_alias_stays_accepted() -> None:
    wanted = (col("a", LONG, "c"), col("b", LONG, "a"))
    evolution = compare(wanted, (col("c", LONG, "b"),), {"c": ("b",)})

    assert evolution == Evolution((AddColumn("a", LONG),), former_names={"c": ("b",)})
    assert compare(wanted, (col("c"), col("a")), evolution.former_names) == Evolution(former_names={"c": ("b",)})


def test_a_field_whose_column_was_renamed_by_one_of_its_aliases_stays_accepted() -> None:
    wanted = (col("a", LONG, "d", "c"), col("b", LONG, "a"))
    evolution = compare(wanted, (col("d"), col("c"), col("b")), {})

    assert evolution == Evolution((RenameColumn("d", "a"),), former_names={"a": ("d",)})
    assert compare(wanted, (col("a"), col("c"), col("b")), evolution.former_names) == Evolution(
        former_names={"a": ("d",)}
    )


SWAPS = (
    "takes the name of a field that the same schema renames: according to their aliases, the fields {} exchange names"
)
EXCHANGES = SWAPS.format("a, b")


def test_fields_that_exchange_their_names_are_refused_whatever_the_table_has() -> None:
    """The table knows columns by name: records of before and of now would share a column with two meanings."""
    swapped = (col("a", LONG, "b"), col("b", LONG, "a"), col("c"))

    for have in [(), (col("a"), col("b")), (col("a"),)]:
        assert findings(swapped, have) == {"a": EXCHANGES, "b": EXCHANGES}
    assert findings((col("s", ListOf(struct(*swapped))),), ()) == {"s[].a": EXCHANGES, "s[].b": EXCHANGES}


def test_every_ring_of_exchanged_names_is_found() -> None:
    ring = (col("a", LONG, "z", "c"), col("b", LONG, "a"), col("c", LONG, "b"))
    pair = (col("p", LONG, "q"), col("q", LONG, "p", "a"))

    exchange = dict.fromkeys("abc", SWAPS.format("a, b, c")) | dict.fromkeys("pq", SWAPS.format("p, q"))
    assert findings((*ring, *pair), (*ring, *pair)) == exchange


def test_two_fields_that_claim_one_column_by_alias_do_not_both_get_it() -> None:
    assert changes((col("p", LONG, "a"), col("q", LONG, "a")), (col("a"),)) == [
        RenameColumn("a", "p"),
        AddColumn("q", LONG),
    ]


def test_no_former_name_leads_to_two_columns() -> None:
    wanted = (col("p", LONG, "a"), col("q", LONG, "a"))

    assert aliases_of(wanted) == {"p": ("a",)}
    assert compare(wanted, (col("p"), col("q")), {}).former_names == {"p": ("a",)}
    assert compare(wanted, (), {}).former_names == {"p": ("a",)}


def test_two_fields_with_former_names_of_one_column_do_not_both_become_it() -> None:
    former = {"c": ("a", "b")}

    assert findings((col("a"), col("b")), (col("c"),), former) == {"b": TAKEN.format("c")}


def test_an_alias_that_is_learnt_late_serves_writers_of_before() -> None:
    evolution = compare((col("b", LONG, "a"),), (col("b"),), {})

    assert evolution == Evolution(former_names={"b": ("a",)})
    assert changes((col("a"),), (col("b"),), evolution.former_names) == []


def test_an_alias_of_a_column_that_is_still_written_renames_nothing() -> None:
    assert changes((col("a"), col("b", LONG, "a")), (col("a"),)) == [AddColumn("b", LONG)]


def test_former_names_survive_as_a_table_property() -> None:
    names = {"b": ("a",), "c[].d": ("x", "y")}

    assert former_names_of(former_names_property(names)) == names
    assert former_names_property({}) == {} == former_names_of({})
    assert former_names_property({"b": ()}) == {}


# --- any two schemas ------------------------------------------------------------------------------------------------

ON_ANY_MACHINE = settings(suppress_health_check=[HealthCheck.too_slow])
NAMES = st.sampled_from(["a", "b", "c"])
SCALARS = st.sampled_from([INT, LONG, FLOAT, DOUBLE, TEXT, Decimal(5, 2), Decimal(9, 2)])


def columns_of(types: st.SearchStrategy[ColumnType]) -> st.SearchStrategy[tuple[Column, ...]]:
    aliases = st.lists(NAMES, max_size=2, unique=True).map(tuple)
    column = st.tuples(NAMES, types, aliases).map(lambda t: Column(t[0], t[1], tuple(a for a in t[2] if a != t[0])))
    return st.lists(column, min_size=1, max_size=3, unique_by=lambda c: c.name).map(tuple)


TYPES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        inner.map(ListOf), inner.map(lambda t: MapOf(TEXT, t)), columns_of(inner).map(Struct)
    ),
    max_leaves=5,
)  # fmt: skip


ON_INCOMPATIBLE = st.sampled_from(get_args(OnIncompatibleSchema))


@ON_ANY_MACHINE
@given(st.lists(columns_of(TYPES), min_size=2, max_size=4), ON_INCOMPATIBLE)
def test_whatever_was_absorbed_needs_no_further_change(
    writers: list[tuple[Column, ...]], on_incompatible: OnIncompatibleSchema
) -> None:
    have: tuple[Column, ...] = ()
    former: FormerNames = {}
    for wanted in writers:
        evolution = compare(wanted, have, former, on_incompatible)
        if evolution.findings:
            continue
        have, former = applied(have, evolution.changes), evolution.former_names
        for setting in get_args(OnIncompatibleSchema):
            again = compare(wanted, have, former, setting)
            assert (again.changes, again.findings, again.former_names) == ((), (), former)


def numbered(columns: tuple[Column, ...], numbers: Iterator[int]) -> tuple[Column, ...]:
    """Columns with a number as their `doc`, which stays through every change: what a field id is in Iceberg."""

    def inside(column_type: ColumnType) -> ColumnType:
        match column_type:
            case Struct(inner):
                return Struct(numbered(inner, numbers))
            case ListOf(element):
                return ListOf(inside(element))
            case MapOf(key, value):
                return MapOf(key, inside(value))
            case _:
                return column_type

    return tuple(replace(c, type=inside(c.type), doc=c.doc or str(next(numbers))) for c in columns)


def destinations(wanted: tuple[Column, ...], have: tuple[Column, ...], former: FormerNames) -> dict[str, str | None]:
    """The number of the column in which ingest puts each field."""
    given, target = arrow_schema(wanted), arrow_schema(have)
    sources = place_by_name(given, target, former)
    assert homeless(given, target, sources) == ()
    return {path: dict(walk(have))[path].doc for path in sources}


def by_field(wanted: tuple[Column, ...], have: tuple[Column, ...], former: FormerNames) -> list[str]:
    """The numbers of the columns of a writer's fields, in a form that renames of the table do not change."""
    return sorted(str(number) for number in destinations(wanted, have, former).values())


@ON_ANY_MACHINE
@given(st.lists(columns_of(TYPES), min_size=2, max_size=5), ON_INCOMPATIBLE)
def test_every_field_of_every_writer_keeps_its_one_column_whatever_comes_later(
    writers: list[tuple[Column, ...]], on_incompatible: OnIncompatibleSchema
) -> None:
    have: tuple[Column, ...] = ()
    former: FormerNames = {}
    numbers = itertools.count()
    absorbed: list[tuple[tuple[Column, ...], list[str]]] = []
    for wanted in writers:
        evolution = compare(wanted, have, former, on_incompatible)
        if evolution.findings:
            continue
        have, former = numbered(applied(have, evolution.changes), numbers), evolution.former_names
        absorbed.append((wanted, by_field(wanted, have, former)))
    for wanted, then in absorbed:
        again = compare(wanted, have, former)
        assert (again.changes, again.findings) == ((), ())
        now = by_field(wanted, have, former)
        assert now == then
        assert len(set(now)) == len(list(walk(wanted)))


# --- unions ---------------------------------------------------------------------------------------------------------

A, B, C = ({"type": "record", "name": n, "fields": [{"name": n.lower(), "type": "int"}]} for n in "ABC")
NAMED_LIKE_ITS_BRANCH = {"type": "record", "name": "A", "fields": [{"name": "B", "type": B}]}
OPTIONAL_A, ONLY_A, WIDE, WIDER = ["null", A], [A], ["null", A, B], [A, B, "null", C]
INT_OR_TEXT = "struct<int: int, string: string>"
OPTIONAL_INT, SCALARS_OF_UNION = ["null", "int"], ["null", "int", "string"]


def of_union(avro: object) -> tuple[Column, ...]:
    text = json.dumps({"type": "record", "name": "R", "fields": [{"name": "u", "type": avro}]})
    return map_schema(parse_schema(text)).columns


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (A, OPTIONAL_A, []),
        (OPTIONAL_A, A, []),
        (ONLY_A, A, []),
        (OPTIONAL_A, ONLY_A, []),
        (OPTIONAL_A, OPTIONAL_A, []),
        (WIDE, WIDE, []),
        (WIDER, WIDE, []),
        (WIDE, WIDER, ["u.C"]),
        (["int", "string"], SCALARS_OF_UNION, []),
        (SCALARS_OF_UNION, ["null", "int", "string", "double"], ["u.double"]),
        (SCALARS_OF_UNION, ["null", "long", "string"], ["u.long"]),
        ("int", OPTIONAL_INT, []),
        (OPTIONAL_INT, "int", []),
        (OPTIONAL_A, WIDE, "is a union of A, B in the writer's schema, the table has a record of a"),
        (A, WIDE, "is a union of A, B in the writer's schema, the table has a record of a"),
        (WIDE, OPTIONAL_A, "is a record of a in the writer's schema, the table has a union of A, B"),
        (WIDE, A, "is a record of a in the writer's schema, the table has a union of A, B"),
        (
            ["null", NAMED_LIKE_ITS_BRANCH],
            ["null", NAMED_LIKE_ITS_BRANCH, "int"],
            "is a union of A, int in the writer's schema, the table has a record of B",
        ),
        (
            NAMED_LIKE_ITS_BRANCH,
            ["null", B, C],
            "is a union of B, C in the writer's schema, the table has a record of B",
        ),
        (OPTIONAL_INT, SCALARS_OF_UNION, f"is {INT_OR_TEXT} in the writer's schema, the table has int"),
        (SCALARS_OF_UNION, OPTIONAL_INT, f"is int in the writer's schema, the table has {INT_OR_TEXT}"),
        (SCALARS_OF_UNION, "string", f"is string in the writer's schema, the table has {INT_OR_TEXT}"),
    ],
)  # fmt: skip
def test_what_a_union_may_become(before: object, after: object, expected: list[str] | str) -> None:
    have, wanted = of_union(before), of_union(after)

    if isinstance(expected, str):
        assert findings(wanted, have) == {"u": expected}
    else:
        assert [change.path for change in changes(wanted, have)] == expected


def test_a_table_knows_its_unions_from_a_property_through_renames() -> None:
    have = (*of_union({"type": "array", "items": WIDE}), *(col("r", struct(col("x"))),))
    unmarked = from_schema(to_schema(have))
    renamed = applied(have, (RenameColumn("u", "v"),))

    assert unions_property(have) == {UNIONS_PROPERTY: '["u[]"]'}
    assert findings(have, unmarked) != {}
    assert findings(have, marked(unmarked, unions_property(have))) == {}
    assert unions_property(renamed) == {UNIONS_PROPERTY: '["v[]"]'}
    assert unions_property((col("r"),)) == {}


def test_the_aliases_of_an_avro_schema_reach_the_comparison() -> None:
    def mapped(text: str) -> tuple[Column, ...]:
        return map_schema(parse_schema(text)).columns

    old = mapped('{"type":"record","name":"R","fields":[{"name":"a","type":"int"}]}')
    new = mapped('{"type":"record","name":"R","fields":[{"name":"b","type":"long","aliases":["a"]}]}')

    assert changes(new, old) == [RenameColumn("a", "b"), WidenType("a", INT, LONG)]
    assert str(SchemaFinding("", "x")) == "(record): x"
