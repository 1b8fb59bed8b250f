"""What contradicts a write mode that follows keys."""

from __future__ import annotations

from collections.abc import Iterator

from frazil.model.change_events import POSITIONS
from frazil.model.errors import SpecError
from frazil.model.spec import METADATA_NAMES, MetadataColumns
from frazil.specs import table_keys as keys
from frazil.specs.keys import Values
from frazil.specs.policies import policies_of
from frazil.specs.policy_keys import COLUMNS
from frazil.specs.problems import Position, Problem
from frazil.specs.route_keys import ROUTES


def order_by_of(values: Values, metadata: MetadataColumns) -> str | None:
    """Return the column that orders the records of a key; None for the offset."""
    column = values[keys.ORDER_BY]
    return None if column in (keys.BY_OFFSET, f"{metadata.prefix}offset") else column


def orders_by_value(values: Values, metadata: MetadataColumns) -> bool:
    """Return whether a column of the value orders the records, which a record without a value lacks."""
    of_value = order_by_of(values, metadata) not in (None, f"{metadata.prefix}timestamp")
    return of_value and not _orders_by_key(values, metadata)


def _orders_by_key(values: Values, metadata: MetadataColumns) -> bool:
    """Return whether a field of the key orders the records, which a record without a value has as well."""
    return (order_by_of(values, metadata) or "").startswith(f"{metadata.prefix}key.")


def identity_of(values: Values, metadata: MetadataColumns) -> tuple[str, ...]:
    """Return the paths of the columns that are the identity of a row; none if it is the key alone."""
    paths: tuple[str, ...] = values.get(keys.IDENTITY) or ()
    return () if paths == (f"{metadata.prefix}key",) else paths


def deletes_by_key(values: Values, metadata: MetadataColumns) -> bool:
    """Return whether a record without a value may take out a row: whether its key has the identity of one."""
    in_key = (path.partition(".")[0] == f"{metadata.prefix}key" for path in identity_of(values, metadata))
    return values[keys.WRITE] in ("upsert", "history") and all(in_key)


def _says_what_tombstones_are(values: Values, metadata: MetadataColumns) -> bool:
    return deletes_by_key(values, metadata) or values.is_given(keys.ON_TOMBSTONE)


def _how_to_keep_the_key(values: Values, metadata: MetadataColumns) -> str:
    """Return a hint. With policies, a key is left out unless it has one itself, whatever metadata.keep says."""
    if policies_of(values) and values[keys.KEY] != "none" and not values[keys.METADATA].is_given(keys.KEEP):
        name = f"{metadata.prefix}key"
        return f"add {name}: {{mask: hash}} or {name}: {{mask: none}} to columns: with policies, a key needs one, too"
    return "set `key` to its format, and add key to metadata.keep"


def keyed_problems(values: Values, metadata: MetadataColumns) -> Iterator[Problem]:
    """Yield what a table that follows keys cannot have."""
    write = values[keys.WRITE]
    if write == "append":
        if values.is_given(keys.IDENTITY):
            what = "no effect with write: append, which keeps every record"
            yield _problem(values.place_of(keys.IDENTITY), what, "set write: deduplicate, or remove identity")
        yield from _without_effect(values, metadata)
        return
    says = f"with write: {write}"
    yield from _identity_problems(values, metadata)
    yield from _first_problems(values, metadata) if write == "deduplicate" else _order_problems(values, metadata)
    yield from _tombstone_problems(values, metadata)
    if not identity_of(values, metadata) and "key" not in metadata.keep:
        what = f"{says}, the key is the identity of a row, and the table keeps no key"
        yield _problem(values.place_of(keys.WRITE), what, _how_to_keep_the_key(values, metadata))
    if len(values.get(keys.TOPICS) or ()) > 1 and write != "deduplicate" and order_by_of(values, metadata) is None:
        what = f"{says}, the offset says which record of a key is the newest, and offsets of several topics do not"
        hint = f"add order_by: {metadata.prefix}timestamp, or a column, or write one spec per topic"
        if values[keys.CDC] != "none":
            what, hint = "the change events of a table are in one topic", "write one spec per topic"
        yield _problem(values.place_of(keys.TOPICS), what, hint)
    if values.get(ROUTES) is not None:
        what = "routes are not supported with a write mode that follows keys"
        yield _problem(values.place_of(ROUTES), what, "write one spec per table, or write: append")


def _identity_problems(values: Values, metadata: MetadataColumns) -> Iterator[Problem]:
    """Yield why these columns cannot be the identity of a row."""
    identity, write, policies = identity_of(values, metadata), values[keys.WRITE], policies_of(values)
    if identity and write == "upsert" and order_by_of(values, metadata) is None:
        what = "with write: upsert, offsets are in order for one key only: they do not order the records of an identity"
        yield _problem(values.place_of(keys.IDENTITY), what, f"add order_by: {metadata.prefix}timestamp, or a column")
    elif write == "upsert" and values[keys.CDC] == "none" and not _says_what_tombstones_are(values, metadata):
        what = "a record without a value has no identity, so it cannot say which row it deletes"
        hint = f"name fields of the key, such as {metadata.prefix}key.id, or remove identity, so that the key is it, or"
        hint = f"{hint} say what such records are with on_tombstone: dead_letter or skip"
        yield _problem(values.place_of(keys.IDENTITY), what, hint)
    if identity and (write == "history" or values[keys.CDC] != "none"):
        what = "a change event changes or deletes the row of its key"
        what = "with write: history, the key says which records are the same thing" if write == "history" else what
        yield _problem(values.place_of(keys.IDENTITY), what, "remove identity")
    not_kept = {f"{metadata.prefix}{name}": name for name in METADATA_NAMES if name not in metadata.keep}
    for path in identity:
        name = not_kept.get(path.partition(".")[0])
        if name is not None:
            what = f"the column {metadata.prefix}{name} is not kept"
            yield _problem(values.place_of(keys.IDENTITY), what, f"add {name} to metadata.keep")
    for path in identity or (f"{metadata.prefix}key",):
        for named, policy in policies.around(path):
            if policy.treatment not in ("hash", "none"):
                what = "the key" if not identity else path
                what = f"with write: {write}, {what} is the identity of a row: {named} may be hashed, and has"
                hint = "write {mask: hash}, which keeps different keys apart"
                yield _problem(values.place_of(COLUMNS), f"{what} mask: {policy.treatment}", hint)


def _without_effect(values: Values, metadata: MetadataColumns) -> Iterator[Problem]:
    what = f"no effect with write: {values[keys.WRITE]}"
    if order_by_of(values, metadata) is not None:
        yield _problem(values.place_of(keys.ORDER_BY), what, "remove order_by")
    if values.is_given(keys.DELETE_MEMORY):
        yield _problem(values.place_of(keys.DELETE_MEMORY), what, "remove delete_memory")


def _first_problems(values: Values, metadata: MetadataColumns) -> Iterator[Problem]:
    """Yield what contradicts that the first record of an identity is its row."""
    yield from _without_effect(values, metadata)
    if "timestamp" not in metadata.keep:
        what = "the first record of a batch is that with the least timestamp, which the table does not keep"
        yield _problem(values.place_of(keys.WRITE), what, "add timestamp to metadata.keep")


def _tombstone_problems(values: Values, metadata: MetadataColumns) -> Iterator[Problem]:
    """Yield why records without a value cannot be what the spec says."""
    if not values.is_given(keys.ON_TOMBSTONE):
        return
    place, write = values.place_of(keys.ON_TOMBSTONE), values[keys.WRITE]
    if deletes_by_key(values, metadata):
        if not orders_by_value(values, metadata):
            does = "ends the interval" if write == "history" else "deletes the row"
            what = f"no effect with write: {write}: a record without a value {does} of its key"
            yield _problem(place, what, "remove on_tombstone")
    elif identity_of(values, metadata) and values.get(keys.ON_TOMBSTONE) == "row":
        what = "a record without a value has no identity, so it is no row"
        yield _problem(place, what, "write dead_letter or skip")


def _order_problems(values: Values, metadata: MetadataColumns) -> Iterator[Problem]:
    """Yield what contradicts the order of the records of a key, and what becomes of those without a value."""
    order_by, timestamp, place = order_by_of(values, metadata), f"{metadata.prefix}timestamp", keys.ORDER_BY
    by_value, by_key = orders_by_value(values, metadata), _orders_by_key(values, metadata)
    if order_by == timestamp and "timestamp" not in metadata.keep:
        what = f"the column {order_by} is not kept"
        yield _problem(values.place_of(place), what, "add timestamp to metadata.keep")
    elif by_value and order_by in {f"{metadata.prefix}{name}" for name in METADATA_NAMES}:
        what = f"{order_by} does not say which record is newer; of the metadata, {timestamp} does"
        yield _problem(values.place_of(place), what, f"write {timestamp}, a column of the value or a field of the key")
    elif order_by is not None and values[keys.CDC] != "none":
        what = "a change event may take values from the one before it, so the log of its database orders change events"
        yield _problem(values.place_of(place), what, "remove order_by, or write cdc_order: source")
    elif by_key:
        yield from _key_order_problems(values, metadata)
    elif by_value and deletes_by_key(values, metadata) and values.get(keys.ON_TOMBSTONE) in (None, "row"):
        what = f"a record without a value has no {order_by}, so it cannot say when it deletes its key"
        by_part = values[keys.WRITE] == "upsert" and identity_of(values, metadata)
        field = f", or a field of the key, such as {metadata.prefix}key.version" if by_part else ""
        hint = (
            f"write order_by: {timestamp}{field}, or say what such records are with on_tombstone: dead_letter or skip"
        )
        yield _problem(values.place_of(place), what, hint)
    by_position = values[keys.CDC_ORDER] == "source" and values[keys.CDC_DELETES] == "by_key"
    remembers = by_position or ((by_key or order_by == timestamp) and deletes_by_key(values, metadata))
    if values.is_given(keys.DELETE_MEMORY) and not remembers:
        what = "no effect: only with order_by may a record come after a delete that is newer"
        what = what if order_by is None else "no effect: no record of this table deletes a key"
        yield _problem(values.place_of(keys.DELETE_MEMORY), what, "remove delete_memory")
    names = POSITIONS.get(values.get(keys.CDC_CONNECTOR) or "", ()) if order_by is None else (order_by,)
    for path, policy in (each for name in names for each in policies_of(values).around(name)):
        if policy.treatment != "none":
            what = f"{path} orders the records of a key, and has mask: {policy.treatment}"
            yield _problem(values.place_of(COLUMNS), what, "write {mask: none}, or order by another column")


def _key_order_problems(values: Values, metadata: MetadataColumns) -> Iterator[Problem]:
    """Yield why a field of the key cannot order records."""
    order_by, place, key = order_by_of(values, metadata), values.place_of(keys.ORDER_BY), f"{metadata.prefix}key"
    identity = identity_of(values, metadata) or (key,)
    if "key" not in metadata.keep:
        yield _problem(place, f"the column {key} is not kept", _how_to_keep_the_key(values, metadata))
    elif values[keys.KEY] in ("string", "bytes", "json"):
        what = f"with key: {values[keys.KEY]}, {key} has no fields"
        yield _problem(place, what, f"order by {metadata.prefix}timestamp, or a column of the value")
    elif any(f"{order_by}.".startswith(f"{path}.") for path in identity):
        what = f"{order_by} is a part of the identity, so all records of an identity have the same one"
        other = f"order by {metadata.prefix}timestamp, or a column of the value"
        hint = f"write an identity without it, such as identity: [{key}.id], or {other}"
        yield _problem(place, what, other if values[keys.WRITE] == "history" else hint)


def _problem(place: Position, what: str, hint: str) -> Problem:
    return Problem(place, what, hint, SpecError)
