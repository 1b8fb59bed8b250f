"""What contradicts a write mode that follows keys."""

from __future__ import annotations

from collections.abc import Iterator

from frazil.model.errors import SpecError
from frazil.model.spec import MetadataColumns
from frazil.specs import table_keys as keys
from frazil.specs.keys import Values
from frazil.specs.policies import policies_of
from frazil.specs.policy_keys import COLUMNS
from frazil.specs.problems import Position, Problem
from frazil.specs.route_keys import ROUTES


def keyed_problems(values: Values, metadata: MetadataColumns) -> Iterator[Problem]:
    """Yield what a table that follows keys cannot have."""
    write = values[keys.WRITE]
    if write == "append":
        return
    says = f"with write: {write}"
    if "key" not in metadata.keep:
        what = f"{says}, the key is the identity of a row, and the table keeps no key"
        yield _problem(values.place_of(keys.WRITE), what, "set `key` to its format, and add key to metadata.keep")
    if values.get(keys.TOPICS) is not None and len(values[keys.TOPICS]) > 1:
        what = f"{says}, the offset says which record of a key is the newest, and offsets of several topics do not"
        yield _problem(values.place_of(keys.TOPICS), what, "write one spec per topic")
    if values.get(ROUTES) is not None:
        what = "routes are not supported with a write mode that follows keys"
        yield _problem(values.place_of(ROUTES), what, "write one spec per table, or write: append")
    if "delta" in values[keys.FORMATS]:
        what = f"{says}, rows are deleted by their position, which Frazil's Delta logs do not express"
        yield _problem(values.place_of(keys.FORMATS), what, "write [iceberg]")
    if values.is_given(keys.ON_TOMBSTONE):
        does = "ends the interval" if write == "history" else "deletes the row"
        what = f"no effect {says}: a record without a value {does} of its key"
        yield _problem(values.place_of(keys.ON_TOMBSTONE), what, "remove on_tombstone")
    for path, policy in policies_of(values).inside(f"{metadata.prefix}key"):
        if policy.treatment not in ("hash", "none"):
            what = f"{says}, the key is the identity of a row: {path} may be hashed, and has mask: {policy.treatment}"
            yield _problem(values.place_of(COLUMNS), what, "write {mask: hash}, which keeps different keys apart")


def _problem(place: Position, what: str, hint: str) -> Problem:
    return Problem(place, what, hint, SpecError)
