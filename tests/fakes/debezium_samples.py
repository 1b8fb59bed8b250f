"""Change events as Debezium writes them: envelopes of connectors for PostgreSQL, MySQL and MongoDB, and other records.

The fields, their order and their types are those of Debezium's `Envelope` and of each connector's
`SourceInfoStructMaker`; the values are made up.
"""

from __future__ import annotations

from typing import Any

from frazil.model.change_events import PLACEHOLDER
from tests.fakes.connect_samples import BOOLEAN, BYTES, INT, LONG, STRING, Schema, array, named, optional, struct

Event = dict[str, Any]

AT_MS = 1_700_000_000_123
AT_US, AT_NS = AT_MS * 1000 + 456, AT_MS * 1_000_000 + 456_789

SNAPSHOT = named("io.debezium.data.Enum", STRING, allowed="true,last,false,incremental")
_SOURCE: dict[str, Schema] = {
    "version": STRING,
    "connector": STRING,
    "name": STRING,
    "ts_ms": LONG,
    "snapshot": optional(SNAPSHOT),
    "db": STRING,
    "sequence": optional(STRING),
    "ts_us": optional(LONG),
    "ts_ns": optional(LONG),
}
POSTGRES_SOURCE = struct(
    "io.debezium.connector.postgresql.Source",
    **_SOURCE,
    schema=STRING,
    table=STRING,
    txId=optional(LONG),
    lsn=optional(LONG),
    xmin=optional(LONG),
    origin=optional(STRING),
    origin_lsn=optional(LONG),
)
MYSQL_SOURCE = struct(
    "io.debezium.connector.mysql.Source",
    **_SOURCE,
    table=optional(STRING),
    server_id=LONG,
    gtid=optional(STRING),
    file=STRING,
    pos=LONG,
    row=INT,
    thread=optional(LONG),
    query=optional(STRING),
)
MONGODB_SOURCE = struct(
    "io.debezium.connector.mongo.Source",
    **_SOURCE,
    collection=STRING,
    ord=INT,
    lsid=optional(STRING),
    txnNumber=optional(LONG),
    wallTime=optional(LONG),
)
TRANSACTION = struct("event.block", id=STRING, total_order=LONG, data_collection_order=LONG)

TEN_DIGITS = {"scale": "2", "connect.decimal.precision": "10"}
ORDER = {
    "id": INT,
    "placed": named("io.debezium.time.MicroTimestamp", LONG),
    "day": optional(named("io.debezium.time.Date", INT)),
    "ref": optional(named("io.debezium.data.Uuid", STRING)),
    "total": optional(
        named(
            "org.apache.kafka.connect.data.Decimal", {"type": "bytes"}, scale="2", **{"connect.decimal.precision": "10"}
        )
    ),
    "notes": optional(STRING),
    "photo": optional(BYTES),
    "tags": optional(array(optional(STRING))),
    "counts": optional(array(optional(INT))),
}
"""A table of PostgreSQL with columns that it may store out of line."""
CUSTOMER = {
    "id": INT,
    "email": STRING,
    "kind": optional(named("io.debezium.data.Enum", STRING, allowed="new,old")),
    "seen": optional(named("io.debezium.time.ZonedTimestamp", STRING)),
    "alarm": optional(named("io.debezium.time.MicroTime", LONG)),
}
"""A table of MySQL."""


def envelope(prefix: str, row: Schema, source: Schema) -> Schema:
    return struct(
        f"{prefix}.Envelope",
        before=optional(row),
        after=optional(row),
        source=source,
        transaction=optional(TRANSACTION),
        op=STRING,
        ts_ms=optional(LONG),
        ts_us=optional(LONG),
        ts_ns=optional(LONG),
    )


POSTGRES = envelope("shop.public.orders", struct("shop.public.orders.Value", **ORDER), POSTGRES_SOURCE)
MYSQL = envelope("crm.crm.customers", struct("crm.crm.customers.Value", **CUSTOMER), MYSQL_SOURCE)
DOCUMENT = named("io.debezium.data.Json", STRING)
MONGODB = struct(
    "app.app.users.Envelope",
    before=optional(DOCUMENT),
    after=optional(DOCUMENT),
    updateDescription=optional(
        struct(
            "io.debezium.connector.mongodb.changestream.updatedescription",
            removedFields=optional(array(STRING)),
            updatedFields=optional(DOCUMENT),
            truncatedArrays=optional(
                array(struct("io.debezium.connector.mongodb.changestream.truncatedarray", field=STRING, size=INT))
            ),
        )
    ),
    source=MONGODB_SOURCE,
    op=optional(STRING),
    ts_ms=optional(LONG),
    transaction=optional(TRANSACTION),
)
HEARTBEAT = struct("io.debezium.connector.common.Heartbeat", ts_ms=LONG)
TRANSACTION_END = struct(
    "io.debezium.connector.common.TransactionMetadataValue",
    status=STRING,
    id=STRING,
    event_count=optional(LONG),
    data_collections=optional(array(struct("event.collection", data_collection=STRING, event_count=LONG))),
    ts_ms=LONG,
)
SCHEMA_CHANGE = struct(
    "io.debezium.connector.mysql.SchemaChangeValue",
    source=MYSQL_SOURCE,
    ts_ms=LONG,
    databaseName=optional(STRING),
    schemaName=optional(STRING),
    ddl=optional(STRING),
    tableChanges=array(struct("io.debezium.connector.schema.Change", type=STRING, id=STRING)),
)
FLATTENED = struct("shop.public.orders.Value", **ORDER, __deleted=optional(BOOLEAN))
"""What `ExtractNewRecordState` leaves of an envelope."""


def postgres(op: str, *, before: Event | None = None, after: Event | None = None, lsn: int = 1) -> Event:
    about = {"schema": "public", "table": "orders", "txId": 571, "lsn": lsn}
    return _event(op, before, after, {**_source("postgresql", "shop", "shop"), **about})


def mysql(op: str, *, before: Event | None = None, after: Event | None = None, pos: int = 4) -> Event:
    about = {"table": "customers", "server_id": 223344, "file": "mysql-bin.000003", "pos": pos, "row": 0}
    return _event(op, before, after, {**_source("mysql", "crm", "crm"), **about})


def mongodb(
    op: str, *, before: str | None = None, after: str | None = None, update: Event | None = None, ord_: int = 1
) -> Event:
    source = {**_source("mongodb", "app", "app"), "collection": "users", "ord": ord_}
    return {**_event(op, before, after, source), "updateDescription": update}


def _source(connector: str, name: str, database: str) -> Event:
    about = {"version": "3.2.0.Final", "connector": connector, "name": name, "snapshot": "false", "db": database}
    return {**about, "ts_ms": AT_MS, "ts_us": AT_US, "ts_ns": AT_NS, "sequence": '["23","24"]'}


def _event(op: str, before: Any, after: Any, source: Event) -> Event:
    times = {"ts_ms": AT_MS + 1, "ts_us": AT_US + 1000, "ts_ns": AT_NS + 1_000_000}
    return {"before": before, "after": after, "source": source, "transaction": None, "op": op, **times}


def order(id_: int, **more: Any) -> Event:
    return {"id": id_, "placed": AT_US, **more}


UNAVAILABLE: Event = {
    "notes": PLACEHOLDER,
    "photo": PLACEHOLDER.encode(),
    "tags": [PLACEHOLDER],
    "counts": list(PLACEHOLDER.encode()),
}
"""The columns of an order that the connector could not read."""
