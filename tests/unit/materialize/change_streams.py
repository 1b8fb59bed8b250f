"""A topic of change events of Debezium, its table, and a model of both in plain Python."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import Any, cast

from values_of_tables import SPEC
from whole_batches import World, drained

from frazil.adapters.embedded_schemas import WithEmbedded
from frazil.adapters.iceberg.lake import IcebergLake
from frazil.model.change_events import ChangeEvents
from frazil.model.settings import CatalogSettings
from frazil.model.snapshot import TableView
from frazil.model.spec import SubjectSettings, TableSpec
from frazil.proof.verification import Verification
from frazil.verify.against_kafka import KafkaSide
from frazil.verify.table import verify_table
from tests.fakes.connect_samples import (
    INT,
    Schema,
    avro_payload,
    avro_schema,
    json_record,
    json_schema,
    json_schema_payload,
)
from tests.fakes.connect_samples import struct as connect_struct
from tests.fakes.debezium_samples import POSTGRES, Event

NAMES = count()
KEY = connect_struct("shop.public.orders.Key", id=INT)


def spec_of(events: ChangeEvents, **changes: Any) -> TableSpec:
    spec = replace(SPEC, table=f"c{next(NAMES)}", write="upsert", on_tombstone="delete", key="avro", readers=())
    values = replace(spec.value_settings, change_events=events)
    keys = replace(spec.key_settings, of_change_events=True)
    return replace(spec, value_settings=values, key_settings=keys, **changes)


@dataclass
class ChangeStream:
    """The changes of one table of a database, in one partition."""

    world: World
    spec: TableSpec
    keys: Schema = field(default_factory=lambda: KEY)

    @classmethod
    def at(cls, folder: Path, events: ChangeEvents | None = None, form: str = "avro", **changes: Any) -> ChangeStream:
        """Make a topic of the converter for Avro, of that for JSON with schemas, or of that for JSON Schema."""
        world = World(IcebergLake(CatalogSettings("jdbc", str(folder))))
        if form == "json":
            changes |= {"key": "connect_json", "value": "connect_json"}
            changes |= {"value_subject": SubjectSettings("record"), "key_subject": SubjectSettings("record")}
        if form == "json_schema":
            changes |= {"key": form, "value": form}
        made = cls(world, spec_of(events or ChangeEvents(), **changes))
        made.register("key", KEY)
        made.register("value", POSTGRES)
        return made

    def register(self, part: str, schema: Schema) -> int:
        subject, registry = f"orders-{part}", self.world.registry
        if self.spec.value == "json_schema":
            return cast(int, registry.register(subject, json_schema(schema), schema_format="JSON").id)
        return cast(int, registry.register(subject, avro_schema(schema)).id)

    def send(self, key: Any, event: Event | None, schema: Schema = POSTGRES) -> None:
        """Send an event as the converter does; None is a tombstone, and a key of None is a null."""
        value = None if event is None else self._framed("value", schema, event)
        if key is not None:
            given = key if isinstance(key, dict) else {"id": key}
            self.world.keys[len(self.world.values)] = self._framed("key", self.keys, given)
        self.world.values.append(cast(bytes, value))

    def _framed(self, part: str, schema: Schema, value: Any) -> bytes:
        if self.spec.value == "connect_json":
            return json_record(schema, value)
        payload = json_schema_payload if self.spec.value == "json_schema" else avro_payload
        return struct.pack(">bI", 0, self.register(part, schema)) + payload(schema, value)

    def catch_up(self) -> list[str]:
        return drained(self.world, self.spec)

    @property
    def view(self) -> TableView:
        view = self.world.lake.load(self.spec.identifier)
        assert view is not None
        return view

    def rows(self, *columns: str) -> list[tuple[Any, ...]]:
        """Return these columns of all rows, sorted by key."""
        parts = self.world.lake.read(self.view, columns=["kafka_key", *columns], equal={})
        found = [row for part in parts for row in part.to_pylist()]
        found.sort(key=lambda row: str(row["kafka_key"]))
        return [tuple(row[name] for name in columns) for row in found]

    def letters(self) -> list[tuple[int, str]]:
        """Return the offset and the reason of each dead letter."""
        view = self.world.lake.load(self.spec.dead_letters_identifier)
        assert view is not None
        parts = self.world.lake.read(view, columns=["offset", "reason"], equal={})
        return sorted((row["offset"], row["reason"]) for part in parts for row in part.to_pylist())

    def against_kafka(self) -> Verification:
        registry = WithEmbedded(cast(Any, self.world.registry))
        side = KafkaSide(self.world.topics, cast(Any, self.world), registry)
        return verify_table(self.world.lake, self.spec, kafka=side)

    def verified(self) -> Verification:
        """Return what the proof says that compares the table with the topic. No finding is accepted."""
        verification = self.against_kafka()
        assert verification.findings == ()
        return verification


def skipped(verification: Verification) -> int:
    return verification.counts.skipped


__all__: Sequence[str] = ("KEY", "ChangeStream", "skipped", "spec_of")
