"""`frazil init`: the specs that it writes for topics."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, cast

import pytest

from frazil.draft_spec import Draft, draft
from frazil.model.errors import IncompatibleSchemaError, SubjectMissingError
from frazil.model.plan import PartitionFacts, TopicFacts
from frazil.model.spec import CONFLUENT, TableSpec
from frazil.peek import PeekedRecord, RawRecord, peek, wire_format_of
from frazil.specs.load import load_tables
from tests.fakes.clients_in_memory import RegistryInMemory, a_field, record
from tests.fakes.reader_in_memory import ReaderInMemory

NOTED = {"name": "note", "type": "string", "doc": "what the customer\n said"}
ORDER = record(a_field("n"), NOTED)


def registry(*subjects: str) -> RegistryInMemory:
    made = RegistryInMemory()
    for subject in subjects:
        made.register(subject, ORDER)
    return made


def seen(key: bytes | None, schema_id: int | None = None) -> PeekedRecord:
    return PeekedRecord(RawRecord("Orders.V1", 0, 0, None, key, b""), schema_id)


def drafted(asked: RegistryInMemory, *sample: PeekedRecord, taken: tuple[str, ...] = ()) -> Draft:
    facts = TopicFacts("Orders.V1", None, {0: PartitionFacts(2, 9), 1: PartitionFacts(0, 1_000)})
    return draft(asked, facts, sample, taken=taken)


def spec_of(text: str, folder: Path) -> TableSpec:
    (folder / "a.yaml").write_text(text)
    (spec,) = load_tables(folder, {}, database="lake", catalog_type="jdbc")
    return spec


def test_a_spec_means_the_same_with_and_without_its_commented_defaults(tmp_path: Path) -> None:
    found = drafted(registry("Orders.V1-value"), seen(b"a"))

    plain = spec_of("topic: Orders.V1\n", tmp_path)
    assert found.name == "orders_v1"
    assert spec_of(found.text, tmp_path) == plain
    uncommented = re.sub(r"(?m)^# ([a-z_]+: \S)", r"\1", found.text)
    assert uncommented.count("\ntrigger: ") == 1
    assert spec_of(uncommented, tmp_path) == plain


@pytest.mark.parametrize("topic", ["null", "Null", "-", "on", "123", "1e5", "2024-01-01"])
def test_every_topic_and_every_description_can_be_read_again(tmp_path: Path, topic: str) -> None:
    asked = RegistryInMemory()
    asked.register(f"{topic}-value", record({**NOTED, "doc": "a\x1b[31m\u2028topic: b\n\x07"}))
    facts = TopicFacts(topic, None, {0: PartitionFacts(0, 9)})

    text = draft(asked, facts, (), taken=()).text

    assert spec_of(text, tmp_path).topics == (topic,)


def test_comments_describe_the_topic_and_its_columns() -> None:
    text = drafted(registry("Orders.V1-value")).text

    assert text.startswith("# A table of the topic Orders.V1, which has 2 partitions and at most 1,007 records.\n")
    assert (
        "# Schema 1, the newest of the subject Orders.V1-value, has these columns:\n"
        "#   n: long\n"
        "#   note: string (what the customer said)\n"
        "value: avro\n"
    ) in text
    assert max(map(len, text.splitlines())) <= 100


@pytest.mark.parametrize(
    ("keys", "subjects", "expected"),
    [
        ([b"a", None], [], "key: string"),
        ([b"a", b"\xff"], [], "key: bytes"),
        ([None], [], "# key: string"),
        ([], [], "# key: string"),
        ([b"\0\0\0\0\1a"], ["Orders.V1-key"], "key: avro"),
    ],
)
def test_the_key_is_what_the_registry_and_the_records_say(
    keys: list[bytes | None], subjects: list[str], expected: str
) -> None:
    text = drafted(registry("Orders.V1-value", *subjects), *map(seen, keys)).text

    assert expected in text.splitlines()


def test_a_record_that_names_its_own_subject_tells_the_schema(tmp_path: Path) -> None:
    by_topic = drafted(registry("Orders.V1-shop.Order"), seen(None, 1)).text
    by_record = drafted(registry("shop.Order"), seen(None, 1)).text

    assert spec_of(by_topic, tmp_path).value_subject.naming == "topic-record"
    assert spec_of(by_record, tmp_path).value_subject.naming == "record"


def test_the_message_of_a_protobuf_schema_is_written(tmp_path: Path) -> None:
    asked = registry()
    text = 'syntax = "proto3"; package shop; message Order { int64 n = 1; } message Refund {}'
    asked.register("Orders.V1-value", text, schema_format="PROTOBUF")

    found = drafted(asked).text

    assert "\nvalue: protobuf\n" in found
    assert "#   n: long\n" in found
    assert spec_of(found, tmp_path).value_settings.message == "shop.Order"


SHOP = 'syntax = "proto3"; package shop; message Order { int64 n = 1; } message Refund { string why = 1; }'


def of_message(message: str | None, key_message: str | None = None) -> PeekedRecord:
    return PeekedRecord(RawRecord("Orders.V1", 0, 0, None, b"", b""), 1, message=message, key_message=key_message)


def test_the_message_is_the_one_that_most_records_name(tmp_path: Path) -> None:
    asked = registry()
    asked.register("Orders.V1-value", SHOP, schema_format="PROTOBUF")
    asked.register("Orders.V1-key", SHOP, schema_format="PROTOBUF")
    named = ("shop.Order", "shop.Refund", "shop.Refund", "of.an.OldSchema", None)

    found = drafted(asked, *(of_message(each, key_message=each) for each in named)).text

    spec = spec_of(found, tmp_path)
    assert (spec.value_settings.message, spec.key_settings.message) == ("shop.Refund", "shop.Refund")
    assert "#   why: string\n" in found
    assert "# The newest records are also shop.Order and of.an.OldSchema. They are bad records of this table:" in found


def test_a_message_that_the_newest_schema_lacks_is_not_written(tmp_path: Path) -> None:
    asked = registry()
    asked.register("Orders.V1-value", SHOP, schema_format="PROTOBUF")

    assert spec_of(drafted(asked, of_message("of.an.OldSchema")).text, tmp_path).value_settings.message == "shop.Order"


def test_a_name_that_is_taken_gets_a_number(tmp_path: Path) -> None:
    found = drafted(registry("Orders.V1-value"), taken=("orders_v1", "orders_v1_2"))

    assert found.name == "orders_v1_3"
    assert spec_of(found.text, tmp_path).table == "orders_v1_3"


@pytest.mark.parametrize(
    ("values", "word"),
    [([b'{"a": 1}', None], "json"), ([b"1", b"2"], "string"), ([b'{"a": 1}', b"\xff"], "bytes")],
)
def test_values_without_a_schema_have_the_format_that_holds_them(
    tmp_path: Path, values: list[bytes | None], word: str
) -> None:
    sample = [PeekedRecord(RawRecord("Orders.V1", 0, 0, None, b"k", value), None) for value in values]
    facts = TopicFacts("Orders.V1", None, {0: PartitionFacts(0, 2)})

    for asked in (registry(), None):
        found = draft(asked, facts, sample, taken=())
        assert spec_of(found.text, tmp_path).value == word
        assert ("\n# fields:\n#   a: long\n" in found.text) is (word == "json")
        assert f"have no schema.\n# All of them become the column `value`.\nvalue: {word}\n" in found.text


@pytest.mark.parametrize("garbage", [b"\xff", b"{a", b"\0\0\0\0\x01x"])
def test_garbage_among_the_newest_values_decides_no_format(tmp_path: Path, garbage: bytes) -> None:
    values = [b'{"a": 1}', b'{"a": 2}', b'{"a": 3}', b'{"a": 4}', garbage]
    reader = ReaderInMemory([(b"k", value) for value in values], headers={}, stamps=range(5))
    facts = TopicFacts("orders", None, {0: PartitionFacts(0, 5)})

    text = draft(None, facts, peek(reader, None, facts, 10), taken=()).text

    assert spec_of(text, tmp_path).value == "json"
    assert "\n# fields:\n#   a: long\n" in text
    assert "# 1 of 5 records is not, and would be a dead letter." in text


def test_garbage_in_a_topic_of_aws_glue_hides_no_wire_format() -> None:
    named, garbage = (RawRecord("t", 0, 0, None, None, value) for value in (b"\3\0" + bytes(16) + b"x", b"x"))

    assert wire_format_of([named] * 4 + [garbage]) == "glue"
    assert wire_format_of([named] * 3 + [garbage]) == CONFLUENT


def test_a_topic_whose_values_cannot_become_rows_gets_no_spec() -> None:
    asked = registry()
    with pytest.raises(SubjectMissingError, match=r"no subject Orders\.V1-value"):
        drafted(asked, seen(b"a"))

    asked.register("Orders.V1-value", "{}", schema_format=cast(Any, "XML"))
    with pytest.raises(IncompatibleSchemaError, match="schema 1 is XML, expected AVRO or JSON or PROTOBUF"):
        drafted(asked)
