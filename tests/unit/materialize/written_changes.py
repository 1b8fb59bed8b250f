"""Change events of a table of orders as bytes, in each format, and their specs."""

from __future__ import annotations

import json
import struct as binary
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

from change_streams import spec_of
from modelled_changes import Event, Rules

from frazil.model.change_events import ChangeEvents
from frazil.model.policed import policed
from frazil.model.policies import Policies, Policy
from frazil.model.spec import BadRecordLimit, SubjectSettings, TableSpec, Trigger
from tests.fakes.clients_in_memory import RegistryInMemory
from tests.fakes.connect_samples import (
    INT,
    LONG,
    STRING,
    Schema,
    avro_payload,
    avro_schema,
    json_record,
    json_schema,
    json_schema_payload,
    json_value,
    optional,
    struct,
)
from tests.fakes.debezium_samples import HEARTBEAT, ORDER, POSTGRES_SOURCE, UNAVAILABLE, envelope, order, postgres

LATER = {**ORDER, "id": LONG, "phone": optional(STRING)}
"""The row after the database has got a column, and a wider key."""
ROWS = [struct("shop.public.orders.Value", **fields) for fields in (ORDER, LATER)]
VALUES = [envelope("shop.public.orders", row, POSTGRES_SOURCE) for row in ROWS]
KEYS = [struct("shop.public.orders.Key", id=kind) for kind in (INT, LONG)]
DECLARED = {"id": "long", "placed": "io.debezium.time.MicroTimestamp", "notes": "string", "tags": ["string"]}
DECLARED |= {"phone": "string", "ref": "io.debezium.data.Uuid"}
KEYLESS = ("null_key", "heartbeat", "m", "t")
MASKED = Policies(columns=(("notes", Policy("truncate", 1)),))


@dataclass(frozen=True, slots=True)
class Setting:
    """What a topic and its table are like. `form` is avro, json_schema, connect_json, or json without schemas."""

    form: str = "avro"
    partitions: int = 2
    rules: Rules = field(default_factory=Rules)
    masked: bool = False
    partition_by: tuple[str, ...] = ()

    @property
    def has_truncates(self) -> bool:
        return self.partitions == 1 and not (self.rules.soft or self.rules.by_source)


def spec_for(setting: Setting) -> TableSpec:
    rules = setting.rules
    events = ChangeEvents(soft_deletes=rules.soft, connector="postgresql" if rules.by_source else None)
    changes: dict[str, Any] = {
        "on_tombstone": "skip" if rules.soft or rules.by_source else "delete",
        "bad_record_limit": BadRecordLimit.off(),
        "trigger": Trigger(timedelta(seconds=60), rows=5, bytes=10**6),
        "delete_memory": rules.memory,
        "partition_by": setting.partition_by,
        "key": setting.form,
        "value": setting.form,
    }
    if setting.form == "connect_json":
        changes |= {"value_subject": SubjectSettings("record"), "key_subject": SubjectSettings("record")}
    spec = spec_of(events, **changes)
    if setting.form == "json":
        spec = replace(spec, value_settings=replace(spec.value_settings, fields=json.dumps(DECLARED)))
    return policed(spec, MASKED, hash_key=None, dead_letter_key=None) if setting.masked else spec


@dataclass(frozen=True, slots=True)
class Writer:
    """Writes keys and values as a connector does. A `later` one has the schema that the table got later."""

    form: str
    registry: RegistryInMemory

    def register(self) -> None:
        """Register the first schemas, from which a table gets its columns."""
        if self.form in ("avro", "json_schema"):
            self._id("key", KEYS[0])
            self._id("value", VALUES[0])

    def key(self, event: Event, *, later: bool) -> bytes | None:
        return None if event.kind in KEYLESS else self._framed("key", KEYS[later], {"id": event.key})

    def value(self, event: Event, *, later: bool) -> bytes | None:
        if event.kind == "tombstone":
            return None
        if event.kind == "heartbeat":
            return self._framed("heartbeat", HEARTBEAT, {"ts_ms": 1})
        image = order(event.key, notes=event.notes, tags=None if event.tags is None else list(event.tags))
        image |= {name: UNAVAILABLE[name] for name in event.lacking}
        image |= {"phone": event.phone} if later else {}
        lsn: Any = event.lsn
        match event.kind:
            case "d":
                written = postgres("d", before=image, lsn=lsn)
            case "m" | "t":
                written = postgres(event.kind, lsn=lsn)
            case "keeps" | "no_after":
                written = postgres("u" if event.kind == "keeps" else "c", lsn=lsn)
            case "bad_value":
                written = postgres("u", after={**image, "ref": "no uuid"}, lsn=lsn)
            case kind:
                written = postgres({"unknown": "x", "null_key": "u"}.get(kind, kind), after=image, lsn=lsn)
        return self._framed("value", VALUES[later], written)

    def _framed(self, part: str, schema: Schema, value: Any) -> bytes:
        match self.form:
            case "connect_json":
                return json_record(schema, value)
            case "json":
                return json.dumps(json_value(schema, value)).encode()
            case "json_schema":
                return binary.pack(">bI", 0, self._id(part, schema)) + json_schema_payload(schema, value)
            case _:
                return binary.pack(">bI", 0, self._id(part, schema)) + avro_payload(schema, value)

    def _id(self, part: str, schema: Schema) -> int:
        if self.form == "json_schema":
            schema_id = self.registry.register(f"orders-{part}", json_schema(schema), schema_format="JSON").id
        else:
            schema_id = self.registry.register(f"orders-{part}", avro_schema(schema)).id
        assert isinstance(schema_id, int)
        return schema_id
