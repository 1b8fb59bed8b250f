"""What bad files say: whole messages, as they reach a terminal."""

from __future__ import annotations

from pathlib import Path

import pytest
from config_files import GOOD, KAFKA, REGISTRY, Load

from frazil.model.errors import Misuse, SettingError, SpecError
from frazil.specs.load import load_settings
from tests.fakes.clients_in_memory import SecretsInMemory

SETTINGS_ERRORS = {
    "unknown key": (
        GOOD + "databse: lake",
        "frazil.yaml:3:1: databse: unknown key",
        "did you mean database?",
    ),
    "misspelt required key": (
        f"kafka: {{bootstrap.server: b}}\n{REGISTRY}",
        "frazil.yaml:1:9: kafka.bootstrap.server: unknown key",
        "did you mean bootstrap.servers?",
    ),
    "missing section": (
        KAFKA,
        "frazil.yaml:1:1: schema_registry: required key is missing: lake.orders has value: avro and key: string",
        "add `schema_registry: {url: …}`; tables of values without registered schemas have another `value`",
    ),
    "missing space after a colon": (
        "kafka:x",
        'frazil.yaml:1:1: expected a mapping of keys, found "kafka:x"',
        "write `name: value` lines, with a space after the colon",
    ),
    "warehouse in the wrong place": (
        GOOD + "catalog: {type: glue, warehouse: s3a://b}",
        'frazil.yaml:3:34: catalog.warehouse: expected s3://bucket/prefix for a glue catalog, found "s3a://b"',
        "begin it with s3://, not with s3a:// or a folder",
    ),
    "Frazil's own key": (
        f"kafka: {{bootstrap.servers: b, group.id: mine}}\n{REGISTRY}",
        "frazil.yaml:1:31: kafka.group.id: Frazil sets this key",
        "Frazil stores offsets in the table; remove the key",
    ),
    "Java key store": (
        f"kafka: {{bootstrap.servers: b, security.protocol: ssl, ssl.keystore.location: /k.jks}}\n{REGISTRY}",
        "frazil.yaml:1:78: kafka.ssl.keystore.location: Java key stores are not supported, only PKCS#12",
        "convert the store with `keytool -importkeystore -deststoretype PKCS12` and give ssl.keystore.location",
    ),
    "sizes of fetches": (
        f"kafka: {{bootstrap.servers: b, fetch.max.bytes: 1000000}}\n{REGISTRY}",
        "frazil.yaml:1:31: kafka.fetch.max.bytes: Frazil sets this key",
        "remove the key; records larger than a fetch are read anyway",
    ),
    "answers too small for a fetch": (
        f"kafka: {{bootstrap.servers: b, receive.message.max.bytes: 1000000}}\n{REGISTRY}",
        'frazil.yaml:1:58: kafka.receive.message.max.bytes: expected a whole number from 67109376, found "1000000"',
        "write at least 67109376, the size of one fetch response; or remove the key",
    ),
    "Kerberos": (
        f"kafka: {{bootstrap.servers: b, sasl.mechanism: GSSAPI}}\n{REGISTRY}",
        "frazil.yaml:1:47: kafka.sasl.mechanism: GSSAPI is not supported in this release",
        "use PLAIN or SCRAM-SHA-512 over sasl_ssl, or client certificates with ssl",
    ),
    "IAM for MSK beside a password": (
        f"kafka: {{bootstrap.servers: b, aws_msk_iam: true, sasl.username: me}}\n{REGISTRY}",
        "frazil.yaml:1:65: kafka.sasl.username: contradicts aws_msk_iam: true, which needs no password",
        "keep one of them",
    ),
    "IAM for MSK without TLS": (
        f"kafka: {{bootstrap.servers: b, aws_msk_iam: true, security.protocol: plaintext}}\n{REGISTRY}",
        "frazil.yaml:1:69: kafka.security.protocol: aws_msk_iam: true requires sasl_ssl, found plaintext",
        "remove the key",
    ),
    "IAM for MSK outside of kafka": (
        f"aws_msk_iam: true\nkafka: {{bootstrap.servers: b}}\n{REGISTRY}",
        "frazil.yaml:1:1: aws_msk_iam: this key belongs to the brokers",
        "move the key under `kafka:`",
    ),
    "password without SASL": (
        f"kafka: {{bootstrap.servers: b, sasl.password: x}}\n{REGISTRY}",
        "frazil.yaml:1:46: kafka.sasl.password: no effect, because security.protocol is plaintext",
        "set security.protocol: sasl_ssl, or remove the sasl.* keys",
    ),
    "SASL without a password": (
        f"kafka: {{bootstrap.servers: b, security.protocol: sasl_ssl, sasl.mechanism: PLAIN}}\n{REGISTRY}",
        "frazil.yaml:1:50: kafka.security.protocol: sasl_ssl needs sasl.username and sasl.password",
        "add them; give a password as ${env:NAME} or ${secret:NAME}",
    ),
    "password in a URL": (
        f"{KAFKA}\nschema_registry: {{url: http://me:pw@r}}",
        "frazil.yaml:2:24: schema_registry.url: logs show the URL, so it must not contain a password",
        "move user and password to schema_registry: basic.auth.user.info",
    ),
    "unset variable": (
        GOOD + "database: ${env:DB}",
        "frazil.yaml:3:11: database: the environment variable DB is not set",
        "run `export DB=…` first",
    ),
    "secret that is not there": (
        f"{KAFKA}\nschema_registry: {{url: http://r, basic.auth.user.info: '${{secret:none}}'}}",
        "frazil.yaml:2:56: schema_registry.basic.auth.user.info: the secret none does not exist",
        "correct the name, or select its AWS account (AWS_PROFILE) and region (AWS_DEFAULT_REGION);"
        " `scripts/deploy.sh create` creates the secrets of an environment",
    ),
    "secret in a plain setting": (
        GOOD + "database: ${secret:known}",
        "frazil.yaml:3:11: database: a secret cannot be used here: this value is shown in plans and logs",
        "use ${env:NAME}, or write the value out",
    ),
    "no folder of specs": (
        GOOD + "tables: nowhere/",
        "frazil.yaml:3:9: tables: the folder nowhere does not exist",
        "run `mkdir nowhere`, or correct the name",
    ),
}

SPEC_ERRORS = {
    "several topics as one": (
        "topic: [a, b]",
        "tables/a.yaml:1:8: topic: expected a topic's name, found a list",
        "write `topics:` for several topics",
    ),
    "a subject instead of a strategy": (
        "topic: x\nsubject: orders-value",
        'tables/a.yaml:2:10: subject: expected topic, record, topic-record or {name: …}, found "orders-value"',
        "use one of: topic, record, topic-record or {name: orders-value}",
    ),
    "no topic": (
        "table: x",
        "tables/a.yaml:1:1: exactly one of topic or topics must be given, found 0",
        "give topic or topics",
    ),
    "duplicate key": (
        "topic: a\nkey: none\ntopic: b",
        "tables/a.yaml:3:1: topic: duplicate key; first on line 1",
        "keep one of them",
    ),
    "not YAML": (
        "topic: a\n  table: b",
        "tables/a.yaml:2:8: mapping values are not allowed here",
        "indent with spaces, put a space after each colon, and quote text that holds : # { } [ ] or %",
    ),
    "alias": (
        "topic: &name a\ntable: *name",
        "tables/a.yaml:2:8: aliases are not supported",
        "write the value out",
    ),
    "value of a later release": (
        "topic: a\ncolumns: {ssn: {mask: tokenize}}",
        "tables/a.yaml:2:23: columns.ssn.mask: tokenize is not supported in this release",
        "use hash: equal values have equal hashes",
    ),
    "order by two columns": (
        "topic: a\nwrite: upsert\norder_by: source at",
        'tables/a.yaml:3:11: order_by: expected a column, found "source at"',
        "write names with dots between them, [] for the items of a list and {} for the values of a map",
    ),
    "misspelt value of a later release": (
        "topic: a\ncolumns: {ssn: {mask: tokenise}}",
        'tables/a.yaml:2:23: columns.ssn.mask: expected one of hash, redact, truncate, none, found "tokenise"',
        "did you mean tokenize? It is not supported in this release: use hash: equal values have equal hashes",
    ),
    "unknown value": (
        "topic: a\non_tombstone: rows",
        'tables/a.yaml:2:15: on_tombstone: expected one of row, skip, dead_letter, found "rows"',
        "did you mean row?",
    ),
    "a connector without a position": (
        "topic: a\nkey: avro\nwrite: upsert\ncdc: debezium\ncdc_order: source\ncdc_connector: vitess",
        "tables/a.yaml:6:16: cdc_connector: expected one of postgresql, mysql, mariadb, sqlserver, oracle, mongodb,"
        ' found "vitess"',
        "use one of: postgresql, mysql, mariadb, sqlserver, oracle, mongodb",
    ),
    "identity that is no path": (
        "topic: a\nwrite: deduplicate\nidentity: [a b]",
        'tables/a.yaml:3:12: identity[0]: expected a column, found "a b"',
        "write names with dots between them, [] for the items of a list and {} for the values of a map",
    ),
    "empty value": (
        "topic: a\nstart:",
        "tables/a.yaml:2:7: start: expected earliest, latest or {timestamp: …} or {offsets: …}, found nothing",
        "use one of: earliest, latest or {timestamp: …} or {offsets: …}",
    ),
    "word of no kind": (
        "topic: a\nstart: yesterday",
        'tables/a.yaml:2:8: start: expected earliest, latest or {timestamp: …} or {offsets: …}, found "yesterday"',
        "use one of: earliest, latest or {timestamp: …} or {offsets: …}",
    ),
    "octal number": (
        "topic: a\ntrigger: {rows: 010}",
        'tables/a.yaml:2:17: trigger.rows: expected a whole number from 1, found "010"',
        "remove the leading zeros: 10 (YAML would read an octal number)",
    ),
    "number in quotes": (
        "topic: a\ntrigger: {rows: '10'}",
        'tables/a.yaml:2:17: trigger.rows: expected a whole number from 1, found the text "10"',
        "remove the quotes",
    ),
    "sexagesimal duration": (
        "topic: a\ntrigger: {every: 1:30}",
        'tables/a.yaml:2:18: trigger.every: expected a duration, found "1:30"',
        "write a number and s, m, h or d: 30s, 5m, 1h, 7d",
    ),
    "time without a zone": (
        "topic: a\nstart: {timestamp: 2026-01-31}",
        'tables/a.yaml:2:20: start.timestamp: expected a time, found "2026-01-31"',
        "add a time zone: 2026-01-31T00:00:00Z",
    ),
    "word instead of a list": (
        "topic: a\nreaders: athena",
        "tables/a.yaml:2:10: readers: expected a list, each one of snowflake, athena, duckdb, spark, pyiceberg, found"
        ' "athena"',
        "write [athena]",
    ),
    "unknown transform": (
        "topic: a\npartition_by: [days(at)]",
        'tables/a.yaml:2:16: partition_by[0]: expected a column or a transform of one, found "days(at)"',
        "unknown transform days: did you mean day?",
    ),
    "sort field with another word": (
        "topic: a\nsort_by: [at, n descending]",
        "tables/a.yaml:2:15: sort_by[1]: expected a column or a transform of one, its direction and its null order,"
        ' found "n descending"',
        "write a column, or a transform of one: symbol, day(kafka_timestamp), bucket(16, account)",
    ),
    "sort by nothing": (
        "topic: a\nsort_by: [void(n)]",
        "tables/a.yaml:2:11: sort_by[0]: expected a column or a transform of one, its direction and its null order,"
        ' found "void(n)"',
        "void gives every row the same value, which sorts nothing",
    ),
}

CONTRADICTIONS = {
    "several topics without a table": (
        "topics: [a, b]",
        "tables/a.yaml:1:9: topics: a spec with several topics requires a table",
        "add `table: name`",
    ),
    "upsert without a key": (
        "topic: a\nkey: none\nwrite: upsert",
        "tables/a.yaml:3:8: write: with write: upsert, the key is the identity of a row, and the table keeps no key",
        "set `key` to its format, and add key to metadata.keep",
    ),
    "upsert of several topics": (
        "topics: [a, b]\ntable: t\nwrite: upsert",
        "tables/a.yaml:1:9: topics: with write: upsert, the offset says which record of a key is the newest, and"
        " offsets of several topics do not",
        "add order_by: kafka_timestamp, or a column, or write one spec per topic",
    ),
    "change events of several topics": (
        "topics: [a, b]\ntable: t\nwrite: upsert\nkey: avro\nvalue: avro\ncdc: debezium",
        "tables/a.yaml:1:9: topics: the change events of a table are in one topic",
        "write one spec per topic",
    ),
    "change events that are appended": (
        "topic: a\ncdc: debezium",
        "tables/a.yaml:2:6: cdc: with cdc: debezium, a change event changes or deletes the row of its key, and"
        " write: append does not",
        "set write: upsert, or remove cdc: envelopes then become rows as they are",
    ),
    "change events without a row": (
        "topic: a\nwrite: upsert\nkey: json\nvalue: json\ncdc: debezium",
        "tables/a.yaml:5:6: cdc: with cdc: debezium and value: json, no schema says which columns a row has",
        "declare them with fields: {id: long, email: string}",
    ),
    "a kept field without a type": (
        "topic: a\nwrite: upsert\nkey: json\nvalue: json\nfields: {id: long}\ncdc: debezium\ncdc_keep: [source.lsn]",
        "tables/a.yaml:7:11: cdc_keep: with cdc: debezium and value: json, no schema says which types these"
        " fields have",
        "remove cdc_keep, or write value: avro",
    ),
    "types of change events elsewhere": (
        "topic: a\nvalue: json\nfields: {id: long, since: [io.debezium.time.Date]}",
        "tables/a.yaml:3:9: fields: io.debezium.time.Date: change events have such types, and cdc is none",
        "set cdc, or write another type",
    ),
    "change events with keys in another format": (
        "topic: a\nwrite: upsert\ncdc: debezium\nkey: protobuf",
        "tables/a.yaml:4:6: key: with cdc: debezium, the types of the key are read as those of the value, and Protobuf"
        " does not name them",
        "set key: avro",
    ),
    "change events in another format": (
        "topic: a\nwrite: upsert\ncdc: debezium\nvalue: protobuf",
        "tables/a.yaml:3:6: cdc: with cdc: debezium, values are avro, json_schema, connect_json or json, and value is"
        " protobuf",
        "set value: avro, and let the connector's converter write it",
    ),
    "a kept field outside of the source": (
        "topic: a\nwrite: upsert\ncdc: debezium\ncdc_keep: [lsn]",
        "tables/a.yaml:4:11: cdc_keep: lsn is no field of source or transaction",
        "write a path such as source.lsn",
    ),
    "change events with second columns": (
        "topic: a\nwrite: upsert\ncdc: debezium\non_incompatible_schema: new_column",
        "tables/a.yaml:4:25: on_incompatible_schema: with cdc: debezium, values that the connector cannot read stay as"
        " stored, which a second column would not follow",
        "write pause or dead_letter",
    ),
    "schemas in records that are no change events": (
        "topic: a\nvalue: connect_json",
        "tables/a.yaml:2:8: value: connect_json is supported for change events only",
        "set cdc, or choose another format",
    ),
    "an order of changes by a source that is not known": (
        "topic: a\nkey: avro\nwrite: upsert\ncdc: debezium\ncdc_order: source",
        "tables/a.yaml:5:12: cdc_order: the position is known of the connectors postgresql, mysql, mariadb, sqlserver,"
        " oracle, mongodb, and cdc_connector does not say which",
        "add cdc_connector, or write cdc_order: offset",
    ),
    "a connector whose position orders nothing": (
        "topic: a\nkey: avro\nwrite: upsert\ncdc: debezium\ncdc_connector: mysql",
        "tables/a.yaml:5:16: cdc_connector: no effect with cdc_order: offset",
        "set cdc_order: source, or remove cdc_connector",
    ),
    "deletes that are remembered where none takes a row out": (
        "topic: a\nkey: avro\nwrite: upsert\ncdc: debezium\ncdc_order: source\ncdc_connector: oracle\n"
        "cdc_deletes: soft\ndelete_memory: 1d",
        "tables/a.yaml:8:16: delete_memory: no effect: only with order_by may a record come after a delete that is"
        " newer",
        "remove delete_memory",
    ),
    "a placeholder of no change events": (
        "topic: a\ncdc_placeholder: x",
        "tables/a.yaml:2:18: cdc_placeholder: no effect, because cdc is none",
        "set cdc, or remove cdc_placeholder",
    ),
    "identity of a log": (
        "topic: a\nidentity: [id]",
        "tables/a.yaml:2:11: identity: no effect with write: append, which keeps every record",
        "set write: deduplicate, or remove identity",
    ),
    "identity without an order": (
        "topic: a\nwrite: upsert\nidentity: [id]",
        "tables/a.yaml:3:11: identity: with write: upsert, offsets are in order for one key only: they do not order the"
        " records of an identity",
        "add order_by: kafka_timestamp, or a column",
    ),
    "identity that tombstones lack": (
        "topic: a\nwrite: upsert\nidentity: [id]\norder_by: kafka_timestamp",
        "tables/a.yaml:3:11: identity: a record without a value has no identity, so it cannot say which row it deletes",
        "name fields of the key, such as kafka_key.id, or remove identity, so that the key is it, or say what such"
        " records are with on_tombstone: dead_letter or skip",
    ),
    "identity that tombstones have in part": (
        "topic: a\nkey: avro\nwrite: upsert\nidentity: [kafka_key.id, shop]\norder_by: kafka_timestamp",
        "tables/a.yaml:4:11: identity: a record without a value has no identity, so it cannot say which row it deletes",
        "name fields of the key, such as kafka_key.id, or remove identity, so that the key is it, or say what such"
        " records are with on_tombstone: dead_letter or skip",
    ),
    "identity in the key and an order that tombstones lack": (
        "topic: a\nkey: avro\nwrite: upsert\nidentity: [kafka_key.id]\norder_by: version",
        "tables/a.yaml:5:11: order_by: a record without a value has no version, so it cannot say when it deletes its"
        " key",
        "write order_by: kafka_timestamp, or a field of the key, such as kafka_key.version, or say what such records"
        " are with on_tombstone: dead_letter or skip",
    ),
    "identity in the key and skipped tombstones": (
        "topic: a\nkey: avro\nwrite: upsert\nidentity: [kafka_key.id]\norder_by: kafka_timestamp\non_tombstone: skip",
        "tables/a.yaml:6:15: on_tombstone: no effect with write: upsert: a record without a value deletes the row of"
        " its key",
        "remove on_tombstone",
    ),
    "identity of a column that is not kept": (
        "topic: a\nwrite: deduplicate\nidentity: [id, kafka_headers]",
        "tables/a.yaml:3:11: identity: the column kafka_headers is not kept",
        "add headers to metadata.keep",
    ),
    "identity and rows without a value": (
        "topic: a\nwrite: deduplicate\nidentity: [id]\non_tombstone: row",
        "tables/a.yaml:4:15: on_tombstone: a record without a value has no identity, so it is no row",
        "write dead_letter or skip",
    ),
    "deduplicate without timestamps": (
        "topic: a\nwrite: deduplicate\nmetadata: {keep: [key]}\npartition_by: []",
        "tables/a.yaml:2:8: write: the first record of a batch is that with the least timestamp, which the table does"
        " not keep",
        "add timestamp to metadata.keep",
    ),
    "deduplicate with an order": (
        "topic: a\nwrite: deduplicate\norder_by: kafka_timestamp",
        "tables/a.yaml:3:11: order_by: no effect with write: deduplicate",
        "remove order_by",
    ),
    "upsert with routes": (
        "topic: a\ntable: t\nwrite: upsert\nroutes: [{table: b, header: {kind: c}}]",
        "tables/a.yaml:4:9: routes: routes are not supported with a write mode that follows keys",
        "write one spec per table, or write: append",
    ),
    "order of rows that are added": (
        "topic: a\norder_by: placed_at",
        "tables/a.yaml:2:11: order_by: no effect with write: append",
        "remove order_by",
    ),
    "memory of rows that are added": (
        "topic: a\ndelete_memory: 7d",
        "tables/a.yaml:2:16: delete_memory: no effect with write: append",
        "remove delete_memory",
    ),
    "memory of deletes in the order of offsets": (
        "topic: a\nwrite: upsert\ndelete_memory: 7d",
        "tables/a.yaml:3:16: delete_memory: no effect: only with order_by may a record come after a delete that is"
        " newer",
        "remove delete_memory",
    ),
    "memory where nothing is deleted": (
        "topic: a\nwrite: upsert\norder_by: at\non_tombstone: skip\ndelete_memory: 7d",
        "tables/a.yaml:5:16: delete_memory: no effect: no record of this table deletes a key",
        "remove delete_memory",
    ),
    "order that tombstones lack": (
        "topic: a\nwrite: upsert\norder_by: changed_at",
        "tables/a.yaml:3:11: order_by: a record without a value has no changed_at, so it cannot say when it deletes its"
        " key",
        "write order_by: kafka_timestamp, or say what such records are with on_tombstone: dead_letter or skip",
    ),
    "order of a history that tombstones lack": (
        "topic: a\nwrite: history\norder_by: changed_at",
        "tables/a.yaml:3:11: order_by: a record without a value has no changed_at, so it cannot say when it deletes its"
        " key",
        "write order_by: kafka_timestamp, or say what such records are with on_tombstone: dead_letter or skip",
    ),
    "order of change events": (
        "topic: a\nkey: avro\nwrite: upsert\ncdc: debezium\norder_by: kafka_timestamp",
        "tables/a.yaml:5:11: order_by: a change event may take values from the one before it, so the log of its"
        " database orders change events",
        "remove order_by, or write cdc_order: source",
    ),
    "order in which a tombstone would be a row": (
        "topic: a\nwrite: upsert\norder_by: changed_at\non_tombstone: row",
        "tables/a.yaml:3:11: order_by: a record without a value has no changed_at, so it cannot say when it deletes its"
        " key",
        "write order_by: kafka_timestamp, or say what such records are with on_tombstone: dead_letter or skip",
    ),
    "order by a timestamp that is not kept": (
        "topic: a\nwrite: upsert\norder_by: kafka_timestamp\nmetadata: {keep: [key]}\npartition_by: []",
        "tables/a.yaml:3:11: order_by: the column kafka_timestamp is not kept",
        "add timestamp to metadata.keep",
    ),
    "order by a field of the key that is the identity": (
        "topic: a\nkey: avro\nwrite: upsert\norder_by: kafka_key.version",
        "tables/a.yaml:4:11: order_by: kafka_key.version is a part of the identity, so all records of an identity have"
        " the same one",
        "write an identity without it, such as identity: [kafka_key.id], or order by kafka_timestamp, or a column of"
        " the value",
    ),
    "order by a field of the key in a history": (
        "topic: a\nkey: avro\nwrite: history\norder_by: kafka_key.version",
        "tables/a.yaml:4:11: order_by: kafka_key.version is a part of the identity, so all records of an identity have"
        " the same one",
        "order by kafka_timestamp, or a column of the value",
    ),
    "order by a field of a key that is a text": (
        "topic: a\nwrite: upsert\nidentity: [id]\norder_by: kafka_key.version\non_tombstone: skip",
        "tables/a.yaml:4:11: order_by: with key: string, kafka_key has no fields",
        "order by kafka_timestamp, or a column of the value",
    ),
    "order by a field of a key that is not kept": (
        "topic: a\nkey: avro\nwrite: upsert\nidentity: [id]\norder_by: kafka_key.version\non_tombstone: skip\n"
        "metadata: {keep: [timestamp]}",
        "tables/a.yaml:5:11: order_by: the column kafka_key is not kept",
        "set `key` to its format, and add key to metadata.keep",
    ),
    "order by other metadata": (
        "topic: a\nwrite: upsert\norder_by: kafka_partition",
        "tables/a.yaml:3:11: order_by: kafka_partition does not say which record is newer; of the metadata,"
        " kafka_timestamp does",
        "write kafka_timestamp, a column of the value or a field of the key",
    ),
    "upsert with on_tombstone": (
        "topic: a\nwrite: upsert\non_tombstone: skip",
        "tables/a.yaml:3:15: on_tombstone: no effect with write: upsert: a record without a value deletes the row of"
        " its key",
        "remove on_tombstone",
    ),
    "upper case": (
        "topic: a\ntable: Orders",
        'tables/a.yaml:2:8: table: athena supports only lower-case names, found "Orders"',
        "write orders",
    ),
    "partition by a column that is not kept": (
        "topic: a\nmetadata: {prefix: m_, keep: []}\npartition_by: [day(m_timestamp)]",
        "tables/a.yaml:3:15: partition_by: day(m_timestamp): the column m_timestamp is not kept",
        "add timestamp to metadata.keep",
    ),
    "sort by a column that is not kept": (
        "topic: a\nmetadata: {keep: [timestamp]}\nsort_by: [kafka_key]",
        "tables/a.yaml:3:10: sort_by: kafka_key: the column kafka_key is not kept",
        "add key to metadata.keep",
    ),
    "a z-order beside a sort order": (
        "topic: a\nsort_by: [n]\nmaintain: {z_order: [n, m]}",
        "tables/a.yaml:3:11: maintain: z_order: sort_by orders the rows already",
        "remove one of them",
    ),
    "a z-order of one column": (
        "topic: a\nmaintain: {z_order: [n]}",
        "tables/a.yaml:2:11: maintain: z_order: expected 2 to 4 columns, found n",
        "write sort_by to order rows by a single column",
    ),
    "a z-order of five columns": (
        "topic: a\nmaintain: {z_order: [a, b, c, d, e]}",
        "tables/a.yaml:2:11: maintain: z_order: expected 2 to 4 columns, found a, b, c, d, e",
        "name fewer columns",
    ),
    "a z-order of a column that is not kept": (
        "topic: a\nmetadata: {keep: [timestamp]}\nmaintain: {z_order: [kafka_key, n]}",
        "tables/a.yaml:3:11: maintain: kafka_key: the column kafka_key is not kept",
        "add key to metadata.keep",
    ),
    "a z-order of the tables of routes": (
        "topic: a\nroutes: [{table: b, schema: s.B}, {table: c, schema: s.C}]\nmaintain: {z_order: [n, m]}",
        "tables/a.yaml:3:11: maintain: z_order: each table of routes has columns of its own",
        "write sort_by in each route, or one spec per table",
    ),
    "sort by a column twice": (
        "topic: a\nsort_by: [n, day(at), n desc]",
        "tables/a.yaml:2:10: sort_by: n and n desc sort by the same values",
        "keep the first one",
    ),
    "dead letters that are deleted while a rollback could bring them back": (
        "topic: a\nmaintain: {keep_dead_letters: 3d, keep_snapshots: {daily: 3}}",
        "tables/a.yaml:2:11: maintain: keep_dead_letters is shorter than keep_snapshots keeps snapshots, at most"
        " 4 days: after a rollback, deleted dead letters would be counted again",
        "write keep_dead_letters: 4d or longer, or keep snapshots for less time",
    ),
    "redundant partitions": (
        "topic: a\npartition_by: [day(at), hour(at)]",
        "tables/a.yaml:2:15: partition_by: day(at) and hour(at) are redundant: Iceberg accepts only one of them",
        "keep the finer one",
    ),
    "subject of a key that is not read": (
        "topic: a\nkey_subject: record",
        "tables/a.yaml:2:14: key_subject: no effect, because key is string",
        "set key: avro or protobuf or json_schema, or remove key_subject",
    ),
    "subject of values without a schema": (
        "topic: a\nvalue: json\nsubject: {name: orders}",
        "tables/a.yaml:3:10: subject: no effect, because value is json",
        "set value: avro or protobuf or json_schema, or remove subject",
    ),
    "formats of texts in values without a JSON Schema": (
        "topic: a\nstring_formats: text",
        "tables/a.yaml:2:17: string_formats: no effect, because value is avro and key is string",
        "set value: json_schema, or remove string_formats",
    ),
    "message of values that are not Protobuf": (
        "topic: a\nmessage: shop.Order",
        "tables/a.yaml:2:10: message: no effect, because value is avro",
        "set value: protobuf, or remove message",
    ),
    "message of keys that are not Protobuf": (
        "topic: a\nvalue: protobuf\nkey_message: shop.Order",
        "tables/a.yaml:3:14: key_message: no effect, because key is string",
        "set key: protobuf, or remove key_message",
    ),
    "delta alone": (
        "topic: a\nformats: [delta]",
        "tables/a.yaml:2:10: formats: delta is only supported together with iceberg, which holds the offsets",
        "write [iceberg, delta]",
    ),
}

CLASHES = {
    "one table": (("topic: x.y", "topic: x_y"), "topic: tables/a.yaml also writes lake.x_y"),
    "only in case": (
        ("{topic: x, readers: []}", "{topic: y, table: X, readers: []}"),
        "table: lake.X differs only in case from lake.x of tables/a.yaml",
    ),
    "dead letters of the first": (
        ("topic: x", "{topic: y, table: x__dead_letters}"),
        "table: lake.x__dead_letters is the dead letters table of tables/a.yaml",
    ),
    "dead letters of the second": (
        ("{topic: y, table: x__dead_letters}", "topic: x"),
        "topic: the dead letters of lake.x would go to lake.x__dead_letters, which tables/a.yaml writes",
    ),
}


@pytest.mark.parametrize(("text", "what", "hint"), SETTINGS_ERRORS.values(), ids=SETTINGS_ERRORS)
def test_a_bad_setting_says_what_where_and_what_to_do(load: Load, text: str, what: str, hint: str) -> None:
    with pytest.raises(SettingError) as raised:
        load(text, secrets={"known": "hush"})

    assert str(raised.value) == f"{what}\n\nhint: {hint}"


@pytest.mark.parametrize(("spec", "what", "hint"), SPEC_ERRORS.values(), ids=SPEC_ERRORS)
def test_a_bad_spec_says_what_where_and_what_to_do(load: Load, spec: str, what: str, hint: str) -> None:
    with pytest.raises(SettingError) as raised:
        load(GOOD, spec)

    assert str(raised.value) == f"{what}\n\nhint: {hint}"


@pytest.mark.parametrize(("spec", "what", "hint"), CONTRADICTIONS.values(), ids=CONTRADICTIONS)
def test_a_spec_may_not_contradict_itself(load: Load, spec: str, what: str, hint: str) -> None:
    with pytest.raises(SpecError) as raised:
        load(GOOD, spec)

    assert str(raised.value) == f"{what}\n\nhint: {hint}"


@pytest.mark.parametrize(("specs", "what"), CLASHES.values(), ids=CLASHES)
def test_two_specs_may_not_meet_in_one_table(load: Load, specs: tuple[str, str], what: str) -> None:
    with pytest.raises(SpecError) as raised:
        load(GOOD, *specs)

    assert raised.value.what.split(": ", 1)[1] == what
    assert raised.value.hint == "give one of them another name with `table:`"


def test_all_problems_of_all_files_are_shown_together(load: Load) -> None:
    with pytest.raises(SettingError) as raised:
        load(GOOD + "databse: x", "topic: a\nwrte: append\nkey: strng", "topics: [a, b]")

    assert str(raised.value) == (
        "The configuration has 4 problems.\n"
        "\n"
        "frazil.yaml:3:1: databse: unknown key\n"
        "    did you mean database?\n"
        "tables/a.yaml:2:1: wrte: unknown key\n"
        "    did you mean write?\n"
        "tables/a.yaml:3:6: key: expected one of none, bytes, string, json, avro, protobuf, json_schema,"
        ' connect_json, found "strng"\n'
        "    did you mean string?\n"
        "tables/b.yaml:1:9: topics: a spec with several topics requires a table\n"
        "    add `table: name`\n"
        "\n"
        "hint: docs/reference/ describes every key: settings.md, tables.md, exports.md, transforms.md, environments.md"
    )


def test_a_missing_file_says_how_to_name_another() -> None:
    with pytest.raises(Misuse) as raised:
        load_settings(Path("nowhere.yaml"), {}, SecretsInMemory())

    assert str(raised.value) == (
        "nowhere.yaml: file not found\n\nhint: run this in the folder of frazil.yaml, or name the file: --config FILE"
    )


@pytest.mark.parametrize("content", [b"topic: \xff", b"topic: a\x00", b"\xef\xbb\xbfwrte: x", b"? [a]\n: b", b"- a"])
def test_no_content_of_a_file_ends_in_a_trace(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "frazil.yaml").write_bytes(content)

    with pytest.raises(SettingError):
        load_settings(tmp_path / "frazil.yaml", {}, SecretsInMemory())


def test_lines_indented_with_tabs_hide_no_other_problem(load: Load) -> None:
    tabs = "topik: orders\nreaders:\n\t- spork\n\t- spark\nwrite: histories\n"
    mixed = "topic: b\nmaintain:\n  target_file: 5MB\n\tkeep_snapshots: {}\n"

    with pytest.raises(SettingError) as refused:
        load(GOOD + "databse: lake", tabs, mixed)

    said = str(refused.value)
    for expected in (
        "frazil.yaml:3:1: databse: unknown key",
        "a.yaml:3:1: indented with a tab, and so is 1 other line",
        "a.yaml:1:1: topik: unknown key",
        "a.yaml:3:4: readers",
        "a.yaml:5:8: write: expected",
        "b.yaml:4:1: indented with a tab",
    ):
        assert expected in said
