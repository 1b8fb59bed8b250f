"""The keys of a transformation's spec, and the transformation that they become."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import PurePath

from frazil.model.errors import SpecError
from frazil.model.spec import Maintain, TableSpec
from frazil.model.transform_order import followed_by
from frazil.model.transforms import TransformSpec
from frazil.specs.across import retained_problem
from frazil.specs.export_keys import parse_table
from frazil.specs.keys import Built, Derived, Key, Required, Section, Values
from frazil.specs.output_keys import OUTPUT, OUTPUT_KEY
from frazil.specs.outputs import output_of
from frazil.specs.partitions import PARTITIONS, SORT_FIELDS, z_order_contradictions
from frazil.specs.problems import Problem, suggest
from frazil.specs.scalars import SIZE, TABLE_NAME, TEXT
from frazil.specs.shapes import ListOf, Scalar, Unfit
from frazil.specs.table_keys import KEEP_SNAPSHOTS, REWRITE_DELETED, Z_ORDER, defaults_of

ADDING = ("append", "deduplicate")
"""The write modes that only add rows."""

FUNCTION = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")


def parse_function(text: str) -> str:
    if not FUNCTION.fullmatch(text):
        raise Unfit("write module:function, such as transforms.cleaning:valid_orders")
    return text


A_TABLE = Scalar("a table", parse_table)

FROM = Key("from", A_TABLE,
           "The table that is followed, as `table` or `database.table`: one that Frazil fills, or that of another"
           " transformation.", Required())  # fmt: skip
JOINS = Key("joins", ListOf(A_TABLE, at_least_one=True),
            "Other tables that the SQL reads; each batch sees their newest snapshots, and a rebuild those that it saw.",
            Derived("none"))  # fmt: skip
SQL = Key("sql", TEXT, "The rows to write, as a query in Spark's SQL. Tables have their names without the database.",
          Derived("none: either sql or python is given"))  # fmt: skip
PYTHON = Key("python", Scalar("a function", parse_function),
             "Instead of SQL a function, as `module:function`. It is called with a DataFrame for `from` and one for"
             " each of `joins`, and returns a DataFrame. The module is looked for in the folder of frazil.yaml.",
             Derived("none: either sql or python is given"))  # fmt: skip
TABLE = Key("table", TABLE_NAME, "The name of the table that is written.", Derived("the file's name without .yaml"))
DATABASE = Key("database", TABLE_NAME, "The database of the table that is written.",
               Derived("`database` of frazil.yaml"))  # fmt: skip
PARTITION_BY = Key("partition_by", PARTITIONS, "Columns or transforms of columns: `day(ts)`, `bucket(16, account)`.",
                   "[]")  # fmt: skip
SORT_BY = Key("sort_by", SORT_FIELDS, "How the rows of each file are sorted: `symbol`, `day(ts) desc nulls last`.",
              "[]")  # fmt: skip
TARGET_FILE = Key("target_file", SIZE, "The size from which rows go to another file.", "512MB", unit="bytes")

MAINTAIN = Key(
    "maintain",
    Built(Section((KEEP_SNAPSHOTS, REWRITE_DELETED, Z_ORDER)), lambda values: values),
    "Maintenance of the table's files and snapshots, as that of [a table](tables.md#keys). Files with"
    " replaced groups are written again, and small files are merged.",
    defaults_of(KEEP_SNAPSHOTS, REWRITE_DELETED, Z_ORDER),
)

TRANSFORM_OUTPUTS = Key(
    "outputs",
    ListOf(OUTPUT, at_least_one=True, example="a list: `- {topic: trades.totals}`"),
    "Topics that follow the table, as those of [a table](tables.md#keys). With a GROUP BY, the columns that it groups"
    " by are the key, and the newest row of each group is sent.",
    Derived("none"),
)

TRANSFORM_SECTION = Section(
    (FROM, JOINS, SQL, PYTHON, TABLE, DATABASE, PARTITION_BY, SORT_BY, TARGET_FILE, MAINTAIN, TRANSFORM_OUTPUTS),
    exactly_one=("sql", "python"),
)


def transform_of(
    values: Values, file: str, tables: Sequence[TableSpec], *, database: str, folder: str
) -> TransformSpec:
    name = PurePath(file).stem

    def in_database(table: str) -> str:
        return table if "." in table else f"{database}.{table}"

    source = in_database(values[FROM])
    of_table = next((spec for spec in tables if spec.identifier == source), None)
    return TransformSpec(
        source_file=file,
        name=name,
        database=values.get(DATABASE) or database,
        table=values.get(TABLE) or name,
        source=source,
        joins=tuple(map(in_database, values.get(JOINS) or ())),
        sql=values.get(SQL) or "",
        function=values.get(PYTHON) or "",
        partition_by=tuple(map(str, values[PARTITION_BY])),
        sort_by=tuple(map(str, values[SORT_BY])),
        folder=folder,
        maintain=_maintain(values),
        outputs=tuple(output_of(each, ()) for each in values.get(TRANSFORM_OUTPUTS) or ()),
        source_changes=of_table is not None and of_table.write not in ADDING,
        source_deduplicates=of_table is not None and of_table.write == "deduplicate",
        source_identity=of_table.identity_paths if of_table is not None and of_table.write == "upsert" else (),
    )


def _maintain(values: Values) -> Maintain:
    given = values[MAINTAIN]
    return Maintain(
        target_file_bytes=values[TARGET_FILE],
        keep_snapshots=given[KEEP_SNAPSHOTS],
        rewrite_deleted=given[REWRITE_DELETED],
        z_order=tuple(given[Z_ORDER]),
    )


def transform_problems(
    values: Values, number: int, every: Sequence[TransformSpec], tables: Sequence[TableSpec]
) -> Iterator[Problem]:
    """Yield what contradicts the table specs and other transformations, in the one of this number."""
    made, before = every[number], every[:number]
    yield from _circle_problems(values, made, tables, every)
    yield from _name_problems(values, made)
    yield from _output_problems(values, made, tables)
    yield from z_order_contradictions(made.maintain.z_order, values.place_of(MAINTAIN), is_sorted=bool(made.sort_by))
    here = values.place_of(TABLE if values.is_given(TABLE) else FROM)
    written = [(spec.source_file, name) for spec in tables for name in (spec.identifier, spec.dead_letters_identifier)]
    written += [(each.source_file, each.identifier) for each in before]
    for file, identifier in written:
        if identifier.lower() == made.identifier.lower():
            what = f"{file} also writes {identifier}"
            yield Problem(here, what, "give one of them another name with `table:`", SpecError)
            return


def source_problems(
    values: Values, number: int, every: Sequence[TransformSpec], tables: Sequence[TableSpec]
) -> Iterator[Problem]:
    """Yield a problem if nothing writes the table that the transformation of this number follows.

    `tables` must be complete: a table whose spec could not be read would be reported as missing.
    """
    made = every[number]
    for table in (made.source, *made.joins):
        old_rows_go = retained_problem(table, tables, values.place_of(FROM), by="a transformation of")
        if old_rows_go is not None:
            yield old_rows_go
    if _is_filled(made, tables) or [*followed_by(made, every)]:
        return
    what = f"no table spec describes {made.source}"
    names = sorted({spec.identifier for spec in tables} | {spec.identifier for spec in every if spec is not made})
    hint = suggest(made.source, names) if names else "write a table spec: `frazil init TOPIC`"
    yield Problem(values.place_of(FROM), what, hint, SpecError)


def _is_filled(made: TransformSpec, tables: Sequence[TableSpec]) -> bool:
    return any(spec.identifier == made.source for spec in tables)


def _circle_problems(
    values: Values, made: TransformSpec, tables: Sequence[TableSpec], every: Sequence[TransformSpec]
) -> Iterator[Problem]:
    chain = [] if _is_filled(made, tables) else [*followed_by(made, every)]
    if made in chain:
        names = " <- ".join(each.name for each in (made, *chain))
        what = f"the transformation follows itself: {names}"
        yield Problem(values.place_of(FROM), what, "follow another table", SpecError)


def _output_problems(values: Values, made: TransformSpec, tables: Sequence[TableSpec]) -> Iterator[Problem]:
    given = values.get(TRANSFORM_OUTPUTS) or ()
    if not given:
        return
    at = values.place_of(TRANSFORM_OUTPUTS)
    for each in given:
        if each.get(OUTPUT_KEY) == ():
            what = "an output of a transformation has `key: []`"
            hint = "leave `key` out: records have no key then, and with a GROUP BY always the columns that it groups by"
            yield Problem(at, what, hint, SpecError)
    for name, count in Counter(output.name for output in made.outputs).items():
        if count > 1:
            yield Problem(at, f"{count} outputs have the name {name}", "give each a `name` of its own", SpecError)
    read = {topic: spec.identifier for spec in tables for topic in spec.topics}
    for output in made.outputs:
        if output.topic in read:
            what = f"the table {read[output.topic]} is made of the topic {output.topic}"
            yield Problem(at, f"{what}: it would read what follows from it", "send to another topic", SpecError)


def _name_problems(values: Values, made: TransformSpec) -> Iterator[Problem]:
    """Yield the names that two of the tables share: the SQL uses them without a database."""
    names = [identifier.partition(".")[2].lower() for identifier in made.tables]
    for name in sorted({each for each in names if names.count(each) > 1}):
        what = f"two of the tables that are read have the name {name}"
        yield Problem(values.place_of(JOINS), what, "the SQL names tables without their database", SpecError)
