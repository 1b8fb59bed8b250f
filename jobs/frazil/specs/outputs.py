"""Convert the keys of output topics, and find their contradictions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from frazil.model.errors import SpecError
from frazil.model.outputs import OutputSpec
from frazil.model.spec import MetadataColumns
from frazil.specs import table_keys
from frazil.specs.keyed import identity_of
from frazil.specs.keys import Values
from frazil.specs.output_keys import OUTPUT_COLUMNS, OUTPUT_KEY, OUTPUT_NAME, OUTPUT_SHARDS, OUTPUT_TOPIC, OUTPUTS
from frazil.specs.problems import Position, Problem
from frazil.specs.route_keys import ROUTES
from frazil.specs.shape_keys import SHAPES

SENT = ("append", "deduplicate", "upsert")
"""The write modes whose tables can have outputs."""


def outputs_of(values: Values, metadata: MetadataColumns) -> tuple[OutputSpec, ...]:
    by_key = (f"{metadata.prefix}key",) if "key" in metadata.keep else ()
    identity = identity_of(values, metadata) if values[table_keys.WRITE] == "upsert" else ()
    return tuple(output_of(each, identity or by_key) for each in values.get(OUTPUTS) or ())


def output_of(given: Values, by_default: tuple[str, ...]) -> OutputSpec:
    """Return an output, with the columns of its key where the spec does not name them."""
    key = given.get(OUTPUT_KEY)
    return OutputSpec(
        topic=given[OUTPUT_TOPIC],
        name=given.get(OUTPUT_NAME) or given[OUTPUT_TOPIC],
        key=by_default if key is None else key,
        columns=given.get(OUTPUT_COLUMNS) or (),
        shards=given[OUTPUT_SHARDS],
    )


def output_problems(values: Values, metadata: MetadataColumns, topics: tuple[str, ...]) -> Iterator[Problem]:
    """Yield why a table cannot have the outputs of its spec."""
    outputs = outputs_of(values, metadata)
    if not outputs:
        return
    place = values.place_of(OUTPUTS)
    if values.get(ROUTES) is not None or values.get(SHAPES) is not None:
        what = "outputs of several tables of one spec are not supported in this release"
        yield _problem(place, what, "write a spec for each table that has an output")
    if values[table_keys.WRITE] not in SENT:
        what = f"outputs of a table with write: {values[table_keys.WRITE]} are not supported in this release"
        what += ": a row is written again when its interval ends, so one key would have two records in no order"
        yield _problem(place, what, f"use write: {', '.join(SENT[:-1])} or {SENT[-1]}")
    if values[table_keys.WRITE] == "upsert":
        yield from _key_problems(values, metadata, outputs)
    for name, count in Counter(output.name for output in outputs).items():
        if count > 1:
            yield _problem(place, f"{count} outputs have the name {name}", "give each a `name` of its own")
    for output in outputs:
        if output.topic in topics:
            what = f"the table is made of the topic {output.topic}, which would read its own output"
            yield _problem(place, what, "send to another topic")


def _key_problems(values: Values, metadata: MetadataColumns, outputs: tuple[OutputSpec, ...]) -> Iterator[Problem]:
    """Yield outputs in which a key would not be one row of the table."""
    identity = identity_of(values, metadata) or (f"{metadata.prefix}key",)
    says = f"with write: upsert, the key of an output is the identity of the row: {', '.join(identity)}"
    nested = [path for path in identity if "." in path]
    if nested:
        what = f"{says}, and {nested[0]} is inside a column, which an output in this release cannot have as its key"
        yield _problem(values.place_of(OUTPUTS), what, "remove outputs, or use an identity of whole columns")
        return
    for output in outputs:
        if set(output.key) != set(identity):
            what = f"{says}, and the output {output.name} has {f'key {list(output.key)}' if output.key else 'no key'}"
            yield _problem(values.place_of(OUTPUTS), what, "remove `key` from the output")


def _problem(place: Position, what: str, hint: str) -> Problem:
    return Problem(place, what, hint, SpecError)
