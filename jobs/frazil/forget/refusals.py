"""Tables that the command does not erase from: it says why, and what to do by hand."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from frazil.adapters.iceberg.former_columns import hidden_columns
from frazil.forget.delta_log import of_log
from frazil.materialize.changed_spec.applied_spec import as_applied
from frazil.materialize.state import Standing
from frazil.model.delta import DELTA_TAG, NEXT_DELTA_TAG
from frazil.model.errors import ErasureError
from frazil.model.join_history import JOINED_TAG
from frazil.model.outputs import OUTPUT_TAG
from frazil.model.snapshot import REBUILD_PREFIX, TableView
from frazil.model.spec import TableSpec
from frazil.model.traces import SoughtValue
from frazil.model.transforms import TRANSFORM_TAG
from frazil.ports import Lake
from frazil.proof.sources import source_columns
from frazil.verify.changed_columns import RECIPE

BY_HAND = "docs/erasure.md says how to erase it by hand; run `frazil forget` without --confirm to see what is left"
OUTPUT_PROPERTY = "frazil.output."


def check_can_erase(lake: Lake, spec: TableSpec, here: Standing, sought: SoughtValue) -> None:
    """Raise ErasureError with each reason why a value cannot be erased from a table by this release."""
    reasons = [
        *_of_spec(spec),
        *_of_earlier_rows(as_applied(spec, here.view.properties), sought.column),
        *_of_table(here.view),
        *_of_delta(lake, spec, here.view, sought),
        *_of_sources(spec, here),
    ]
    if here.rolled_back:
        reasons.append("it was rolled back, and no batch has been published since: run `frazil materialize --once`")
    if reasons:
        raise ErasureError(
            f"{spec.identifier}: nothing was erased: this release cannot, because {'; because '.join(reasons)}",
            hint=BY_HAND,
        )


def check_pins(pins: Mapping[str, list[str]], *, drop: bool) -> None:
    """Raise ErasureError if branches or tags of others keep traces, unless they are to be dropped. `pins` by table."""
    kept = [f"{name} of {table}" for table, names in pins.items() for name in names]
    if kept and not drop:
        raise ErasureError(
            f"nothing was erased: these branches and tags, which Frazil did not set or which exports have pinned, keep"
            f" snapshots with the value: {', '.join(kept)}",
            hint="drop them with `--drop-pins`: a branch goes with all that was committed to it alone",
        )


def check_column(spec: TableSpec, sought: SoughtValue) -> None:
    """Raise ErasureError if each column that had the name is called otherwise now."""
    if not sought.without_renamed.columns:
        raise ErasureError(
            f"{spec.identifier}: nothing was erased: {sought.column} is called {' and '.join(sought.renamed)} now, and"
            " rows are erased by the name that a column has",
            hint=f"name it so: `--where {sought.renamed[0]}={sought.text}`",
        )


def _of_spec(spec: TableSpec) -> Iterator[str]:
    if spec.group is not None:
        yield "the table is one of a group (`routes` or `shapes`), whose tables share a state"
    if spec.outputs:
        yield "it is sent to topics, which would get the rows of rewritten files again"


def _of_earlier_rows(spec: TableSpec, column: str) -> Iterator[str]:
    """Rows of a key that follow from earlier ones go with all of these: by what is the same in all of them."""
    if not spec.follows_keys or spec.is_in_identity(column):
        return
    by = f"erase by the identity, {' or '.join(spec.identity_paths)}, and {column} is not in it"
    if spec.keeps_history:
        yield f"it has `write: history`, whose intervals of a key follow each other: {by}"
    if spec.cdc != "none":
        yield f"it has `cdc: {spec.cdc}`, whose events may take values from the row before them: {by}"


def _of_table(view: TableView) -> Iterator[str]:
    if any(name.startswith(OUTPUT_TAG) for name in view.tags) or any(
        name.startswith(OUTPUT_PROPERTY) for name in view.properties
    ):
        yield "an output topic continues from its snapshots"
    followers = sorted(name.removeprefix(TRANSFORM_TAG) for name in view.tags if name.startswith(TRANSFORM_TAG))
    if followers:
        yield f"transformations follow it, whose tables have rows of its rows: {', '.join(followers)}"
    if any(name.startswith(JOINED_TAG) for name in view.tags):
        yield "transformations join it, whose tables have rows of its rows, and whose rebuilds need its snapshots"
    if any(name.startswith(REBUILD_PREFIX) for name in (*view.branches, *view.tags)):
        yield "a rebuild of it has begun: finish it, or drop its branches"
    if view.properties.get("gc.enabled") == "false":
        yield "`gc.enabled` is false: its files must not be deleted"


def _of_delta(lake: Lake, spec: TableSpec, view: TableView, sought: SoughtValue) -> Iterator[str]:
    if "delta" in spec.formats:
        yield from of_log(lake, view, sought)
    elif any(name in view.tags for name in (DELTA_TAG, NEXT_DELTA_TAG)):
        yield "its Delta log from an earlier spec keeps the value: delete the log first"


def _of_sources(spec: TableSpec, here: Standing) -> Iterator[str]:
    """Files that are written anew have the present columns only: values under earlier ones could not be restored."""
    for name in source_columns(as_applied(spec, here.view.properties), here.state).names:
        if hidden_columns(here.view, here.view.head or here.carrier.id, name):
            yield f"another writer made the column {name} again, and files have earlier values: restore them {RECIPE}"
