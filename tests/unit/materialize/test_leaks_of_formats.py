"""No masked value of any value format is in any file, nor in any log line (test_leaks.py), of whole runs."""

from __future__ import annotations

import json
import shutil
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from google.protobuf.message_factory import GetMessageClass
from policed_tables import DROP, HASH, KEEP, NO_KEY, REDACT, masked, truncate
from test_leaks import MARK, Run, carried_out, empty_run
from values_of_tables import spec
from whole_batches import framed

from frazil.cli.logs import EventFormatter
from frazil.dead_letters import list_dead_letters
from frazil.formats.protobuf.schema import parse_schema
from frazil.materialize.outcome import Published
from frazil.model.policies import Policy
from frazil.model.spec import SCHEMA_TYPES, BadRecordLimit, FormatSettings, MetadataColumns, TableSpec
from tests.fakes.clients_in_memory import a_field, record

__all__ = ("empty_run",)
KEPT = MetadataColumns(keep=("partition", "offset", "timestamp", "key", "schema_id"))
FRAME = struct.pack(">bI", 0, 1)
UNMARKED = {"born", "contacts[].long", "office"}
"""The paths whose value in the good record is not a text with the mark."""


@dataclass(frozen=True)
class Case:
    """A format with masked values in a good record, and in records that cannot be rows."""

    name: str
    word: str
    good: bytes
    bad: Sequence[bytes | None]
    policies: Mapping[str, Policy]
    schema: str = ""
    tags: Mapping[str, Policy] = field(default_factory=dict)
    fields: str = ""

    def spec_changes(self) -> dict[str, Any]:
        settings = FormatSettings(fields=self.fields)
        return {"value": self.word, "value_settings": settings, "metadata": KEPT, "formats": ("iceberg", "delta")}

    def register(self, run: Run) -> None:
        if self.schema:
            run.world.registry.register("orders-value", self.schema, schema_format=SCHEMA_TYPES[self.word])

    def run(self, run: Run, table: TableSpec, caplog: pytest.LogCaptureFixture) -> None:
        self.register(run)
        carried_out(run, table, caplog, self.good, self.bad)
        held = run.world.lake.catalog.load_table(table.identifier).scan().to_arrow()
        offsets = held.column("kafka_offset").to_pylist()
        assert {0, 1, 2, 3 + len(self.bad)} <= {*offsets}, "the good records are rows"
        assert len(offsets) == 4 + self.bad.count(None)


# --- Avro: unions, enums, maps and what is inside them

_HOME = {"type": "record", "name": "Home", "namespace": "n", "fields": [a_field("street", "string"), a_field("no")]}
_KIND = {"type": "enum", "name": "Kind", "namespace": "n", "symbols": ["OTHER", f"{MARK}_symbol"], "default": "OTHER"}
_AVRO = record(
    a_field("id"),
    a_field("contacts", {"type": "array", "items": ["null", "string", _HOME, "long"]}),
    a_field("kind", _KIND),
    a_field("notes", {"type": "map", "values": {"type": "array", "items": "string"}}),
    {**a_field("tagged", ["null", "bytes"]), "confluent:tags": ["PII"]},
    a_field("born", {"type": "int", "logicalType": "date"}),
    a_field("ssn", "string"),
)
_PERSON = {
    "id": 7,
    "contacts": [f"{MARK}-mail", ("n.Home", {"street": f"1 {MARK}-street", "no": 1}), 5],
    "kind": f"{MARK}_symbol",
    "notes": {"plain": [f"{MARK}-note"]},
    "tagged": f"1 {MARK}-bytes".encode(),
    "born": 12_345,
    "ssn": f"{MARK}-ssn",
}
_AVRO_GOOD = framed(1, _AVRO, _PERSON)
AVRO = Case(
    "Avro",
    "avro",
    _AVRO_GOOD,
    [
        _AVRO_GOOD[:-3],
        _AVRO_GOOD.replace(b"LEAKED-mail", b"LEAKED\xff\xff\xff\xff\xff"),
        _AVRO_GOOD.replace(b"LEAKED-ssn", b"LEAKED\xff\xff\xff\xff"),
        _AVRO_GOOD + MARK.encode(),
        FRAME + MARK.encode(),
        f"\0{MARK} an unknown schema".encode(),
        None,
    ],
    {
        "contacts[].string": HASH, "contacts[].Home.street": truncate(3), "contacts[].long": HASH, "kind": HASH,
        "notes{}": REDACT, "born": REDACT, "ssn": DROP,
    },
    schema=_AVRO,
    tags={"PII": truncate(2)},
)  # fmt: skip

# --- Protobuf: a oneof, an enum, a map, a message in it, fields that the schema does not have, and any JSON

_PROTO = """
    syntax = "proto3"; import "google/protobuf/struct.proto"; import "google/protobuf/wrappers.proto";
    message Person {
      int32 id = 1; optional string email = 2; string ssn = 3; repeated string phones = 4; Address address = 5;
      map<string, Address> homes = 6; oneof contact { string fax = 7; Address office = 8; } Kind kind = 9;
      google.protobuf.Struct any = 10; bytes photo = 11; map<string, string> named = 12;
      google.protobuf.StringValue wrapped = 13;
    }
    message Address { string street = 1; string city = 2; }
    enum Kind { OTHER = 0; LEAKED_symbol = 1; }
"""


def _person() -> bytes:
    made: Any = GetMessageClass(parse_schema(_PROTO).message)
    person = made(id=7, email=f"{MARK}-mail", ssn=f"{MARK}-ssn", phones=[f"+351{MARK}"], fax=f"{MARK}-fax", kind=1)
    person.address.street, person.address.city = f"{MARK}-street", "Lisboa"
    person.homes["first"].street = f"{MARK}-home"
    person.any.update({f"{MARK}-name": [f"{MARK}-any"]})
    person.photo, person.named[f"{MARK}-entry"] = f"{MARK}-photo".encode(), f"{MARK}-text"
    person.wrapped.value = f"{MARK}-wrapped"
    unknown = b"\xa2\x06" + bytes([len(MARK)]) + MARK.encode()
    return bytes(person.SerializeToString()) + unknown


_PROTOBUF_GOOD = FRAME + b"\0" + _person()
PROTOBUF = Case(
    "Protobuf",
    "protobuf",
    _PROTOBUF_GOOD,
    [
        _PROTOBUF_GOOD[:-3],
        FRAME + b"\0\x12\x07" + MARK.encode() + b"\xff",
        FRAME + b"\x0e" + _person(),
        FRAME + b"\0" + f"{MARK} no field".encode(),
        f"{MARK} no frame".encode(),
        None,
    ],
    {
        "email": HASH, "ssn": DROP, "phones[]": truncate(4), "address.street": REDACT, "homes{}": REDACT, "fax": HASH,
        "office": HASH, "kind": HASH, "any": DROP, "photo": truncate(2), "named": DROP, "wrapped": HASH,
    },
    schema=_PROTO,
)  # fmt: skip

# --- JSON: undeclared fields, any JSON, keys of objects, and texts of the wrong type or format

_ROW: dict[str, Any] = {
    "id": 7,
    "email": f"{MARK}-mail",
    "ssn": f"{MARK}-ssn",
    "born": "2001-02-03T04:05:06Z",
    "address": {"street": f"{MARK}-street", "city": "Lisboa", f"{MARK}-undeclared": f"{MARK}-value"},
    "phones": [f"+351{MARK}"],
    "labels": {"plain": f"{MARK}-label"},
    "notes": {f"{MARK}-name": f"{MARK}-note"},
    "any": {f"{MARK}-any": [f"{MARK}-any"]},
    f"{MARK}-more": {f"{MARK}-deep": f"{MARK}-extra"},
    "Email": f"{MARK}-other-case",
}
_JSON_POLICIES = {
    "email": HASH, "ssn": DROP, "born": REDACT, "address.street": REDACT, "phones[]": truncate(4), "labels{}": HASH,
    "notes": DROP, "any": HASH, "_extra": REDACT,
}  # fmt: skip


def _text(frame: bytes = b"", **changes: Any) -> bytes:
    return frame + json.dumps({**_ROW, **changes}).encode()


def _bad_json(frame: bytes) -> list[bytes | None]:
    return [
        _text(frame)[:-3],
        _text(frame, born=f"{MARK} is no time"),
        _text(frame, id=f"{MARK} is no number"),
        _text(frame, address=f"{MARK} is no object"),
        _text(frame, phones=[{MARK: MARK}]),
        frame + b'{"email":"LEAKED","email":"LEAKED"}',
        frame + b'{"notes":{"LEAKED":"a","LEAKED":"b"}}',
        frame + b'{"LEAKED-x":1,"LEAKED-x":2}',
        frame + b'{"email":"LEAKED\xff"}',
        frame + b'{"email":LEAKED}',
        frame + f"{MARK} no JSON".encode(),
        _text(frame) + MARK.encode(),
        None,
    ]


_TEXT: dict[str, Any] = {"type": "string"}
_SCHEMA = {
    "type": "object",
    "properties": {
        "id": {"type": "integer"},
        "email": {**_TEXT, "enum": [f"{MARK}-mail", "other"]},
        "ssn": _TEXT,
        "born": {**_TEXT, "format": "date-time"},
        "address": {"type": "object", "properties": {"street": _TEXT, "city": _TEXT}},
        "phones": {"type": "array", "items": _TEXT},
        "labels": {"type": "object", "additionalProperties": _TEXT},
        "notes": {"type": "object", "additionalProperties": _TEXT},
        "any": {},
    },
}
_FIELDS = {
    "id": "long",
    "email": "string",
    "ssn": "string",
    "born": "timestamptz",
    "address": {"street": "string", "city": "string"},
    "phones": ["string"],
    "labels": {"*": "string"},
    "notes": {"*": "string"},
    "any": "json",
}
JSON_SCHEMA = Case(
    "JSON Schema", "json_schema", _text(FRAME), _bad_json(FRAME), _JSON_POLICIES, schema=json.dumps(_SCHEMA)
)
DECLARED = Case("JSON, fields of the spec", "json", _text(), _bad_json(b""), _JSON_POLICIES, fields=json.dumps(_FIELDS))
JSON_TEXT = Case("JSON as text", "json", _text(), [*_bad_json(b"")[-3:]], {"value": HASH})
TEXT = Case("Text", "string", f"abc{MARK}".encode(), [MARK.encode() + b"\xff", None], {"value": truncate(3)})
CASES = (AVRO, PROTOBUF, JSON_SCHEMA, DECLARED, JSON_TEXT, TEXT)


@pytest.mark.parametrize("key", [HASH, REDACT, truncate(2)], ids=str)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_no_file_and_no_message_of_a_run_has_a_masked_value(
    case: Case, key: Policy, empty_run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    table = masked({**case.policies, "kafka_key": key}, dict(case.tags), **case.spec_changes())

    case.run(empty_run, table, caplog)

    assert empty_run.leaks() == set()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_without_policies_the_search_finds_the_values(
    case: Case, empty_run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    case.run(empty_run, spec(**case.spec_changes()), caplog)

    assert empty_run.leaks() >= {".parquet of rows", ".parquet of dead letters", ".avro", ".json", "said"}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_without_one_of_the_policies_the_search_finds_its_value(case: Case, empty_run: Run) -> None:
    case.register(empty_run)
    empty_run.world.values = [case.good]
    tags = {name: {**case.tags, name: KEEP} for name in case.tags}
    without = [({**case.policies, path: KEEP}, dict(case.tags)) for path in case.policies if path not in UNMARKED]
    without += [(dict(case.policies), each) for each in tags.values()]

    for number, (columns, tags_left) in enumerate([(dict(case.policies), dict(case.tags)), *without]):
        changes = {**case.spec_changes(), "metadata": NO_KEY, "table": f"t{number}", "formats": ("iceberg",)}
        assert isinstance(empty_run.world.table(masked(columns, tags_left, **changes)).batch(), Published)
        assert (".parquet of rows" in empty_run.leaks()) is (number > 0), columns
        shutil.rmtree(next(empty_run.warehouse.rglob(f"t{number}")))


# --- keys with schemas

_N = record(a_field("n"))
_OF_KEY = struct.pack(">bI", 0, 2)


@pytest.mark.parametrize("has_policies", [True, False])
@pytest.mark.parametrize("case", [AVRO, PROTOBUF, JSON_SCHEMA], ids=lambda case: case.name)
def test_keys_with_schemas_leave_no_masked_value(
    case: Case, has_policies: bool, empty_run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    world, schema_format = empty_run.world, SCHEMA_TYPES[case.word]
    world.registry.register("orders-value", _N)
    world.registry.register("orders-key", case.schema, schema_format=schema_format)
    world.key = _OF_KEY + case.good[len(FRAME) :]
    columns = {f"kafka_key.{path}": policy for path, policy in case.policies.items()}
    settings: dict[str, Any] = {"key": case.word, "metadata": KEPT, "bad_record_limit": BadRecordLimit.off()}
    table = masked(columns, dict(case.tags), **settings) if has_policies else spec(**settings)
    good = framed(1, _N, {"n": 1})
    world.values = [good]
    assert isinstance(world.table(table).batch(), Published)

    world.values.append(good)
    world.key = world.key[:-1]
    assert isinstance(world.table(table).batch(), Published)

    empty_run.said += map(EventFormatter().format, caplog.records)
    (letter,) = list_dead_letters(world.lake, table, limit=9).newest
    assert letter.reason == "bad_key"
    found = empty_run.leaks()
    assert found == set() if has_policies else found >= {".parquet of rows", ".parquet of dead letters"}
