"""What a table spec says about change events, and what contradicts it."""

from __future__ import annotations

from collections.abc import Iterator

from frazil.model.change_events import POSITIONS, ChangeEvents
from frazil.model.errors import SpecError
from frazil.model.spec import EMBEDDED
from frazil.specs import table_keys as keys
from frazil.specs.keys import Values
from frazil.specs.problems import Position, Problem

VALUES = ("avro", "json_schema", EMBEDDED, "json")
"""The formats in which Frazil reads change events."""
_KEPT_FROM = ("source.", "transaction.")


def change_events_of(values: Values) -> ChangeEvents | None:
    """Return how change events become changes; None if the values are none."""
    if values[keys.CDC] == "none":
        return None
    soft = values[keys.CDC_DELETES] == "soft"
    return ChangeEvents(
        soft_deletes=soft,
        connector=values.get(keys.CDC_CONNECTOR),
        kept=values[keys.CDC_KEEP],
        placeholder=values[keys.CDC_PLACEHOLDER].encode(),
    )


def change_event_problems(values: Values) -> Iterator[Problem]:
    """Yield what contradicts `cdc`, and what has no effect without it."""
    yield from _without_events(values) if values[keys.CDC] == "none" else _of_events(values)


def _without_events(values: Values) -> Iterator[Problem]:
    for key in (keys.CDC_DELETES, keys.CDC_KEEP, keys.CDC_PLACEHOLDER, keys.CDC_ORDER, keys.CDC_CONNECTOR):
        if values.is_given(key):
            yield _problem(values.place_of(key), "no effect, because cdc is none", f"set cdc, or remove {key.name}")
    for part in (keys.VALUE, keys.KEY):
        if values[part] == EMBEDDED:
            what = f"{EMBEDDED} is supported for change events only"
            yield _problem(values.place_of(part), what, "set cdc, or choose another format")


def _of_events(values: Values) -> Iterator[Problem]:
    place, says = values.place_of(keys.CDC), f"with cdc: {values[keys.CDC]}"
    if values[keys.WRITE] != "upsert":
        what = f"{says}, a change event changes or deletes the row of its key, and write: {values[keys.WRITE]} does not"
        yield _problem(place, what, "set write: upsert, or remove cdc: envelopes then become rows as they are")
    if values[keys.VALUE] not in VALUES:
        what = f"{says}, values are {', '.join(VALUES[:-1])} or {VALUES[-1]}, and value is {values[keys.VALUE]}"
        yield _problem(place, what, f"set value: {VALUES[0]}, and let the connector's converter write it")
    if values[keys.KEY] == "protobuf":
        what = f"{says}, the types of the key are read as those of the value, and Protobuf does not name them"
        yield _problem(values.place_of(keys.KEY), what, f"set key: {values[keys.VALUE]}")
    if values[keys.ON_SCHEMA] == "new_column":
        what = f"{says}, values that the connector cannot read stay as stored, which a second column would not follow"
        yield _problem(values.place_of(keys.ON_SCHEMA), what, "write pause or dead_letter")
    if values[keys.VALUE] == "json":
        yield from _without_schema(values, says)
    by_source, connector = values[keys.CDC_ORDER] == "source", values.get(keys.CDC_CONNECTOR)
    if by_source and connector is None:
        what = f"the position is known of the connectors {', '.join(POSITIONS)}, and cdc_connector does not say which"
        yield _problem(values.place_of(keys.CDC_ORDER), what, "add cdc_connector, or write cdc_order: offset")
    if connector is not None and not by_source:
        what = "no effect with cdc_order: offset"
        yield _problem(values.place_of(keys.CDC_CONNECTOR), what, "set cdc_order: source, or remove cdc_connector")
    for path in values[keys.CDC_KEEP]:
        if not path.startswith(_KEPT_FROM):
            what = f"{path} is no field of source or transaction"
            yield _problem(values.place_of(keys.CDC_KEEP), what, "write a path such as source.lsn")


def _without_schema(values: Values, says: str) -> Iterator[Problem]:
    if values.get(keys.FIELDS) is None:
        what = f"{says} and value: json, no schema says which columns a row has"
        yield _problem(values.place_of(keys.CDC), what, "declare them with fields: {id: long, email: string}")
    if values[keys.CDC_KEEP]:
        what = f"{says} and value: json, no schema says which types these fields have"
        yield _problem(values.place_of(keys.CDC_KEEP), what, f"remove cdc_keep, or write value: {VALUES[0]}")


def _problem(place: Position, what: str, hint: str) -> Problem:
    return Problem(place, what, hint, SpecError)
