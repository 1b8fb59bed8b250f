"""Every Avro type through a real broker and registry, and what each reader makes of the table."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest
from breadth import Place, Table, encode
from every_type import ADDRESS, FAR, FIELDS, LEAST, LEAST_ROW, SCHEMA, USUAL, USUAL_ROW, plain

from frazil.local.supervisor import LocalServices


def everything(place: Place, topic: str, *records: object) -> list[bytes]:
    """The schema, referring to another subject, and the records as a producer sends them."""
    place.register(f"{topic}-address", ADDRESS)
    schema_id = place.register(f"{topic}-value", SCHEMA, references=[("shop.Address", f"{topic}-address")])
    return encode(plain(SCHEMA), schema_id, *records, uses=[ADDRESS])


@pytest.fixture(scope="module")
def table(services: LocalServices, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Table]:
    place = Place(services, tmp_path_factory.mktemp("every"))
    topic = place.topic()
    place.send(topic, *everything(place, topic, USUAL, LEAST, FAR), key=b"k")
    yield place.materialize(f"topic: {topic}\nreaders: [duckdb]")


def test_every_type_becomes_its_column(table: Table) -> None:
    assert table.types == {
        **{name: column for name, (_, column) in FIELDS.items()},
        "kafka_partition": "int",
        "kafka_offset": "long",
        "kafka_timestamp": "timestamptz",
        "kafka_key": "string",
        "kafka_schema_id": "int",
    }


def test_every_value_arrives_as_it_was_sent(table: Table) -> None:
    rows = table.arrow().filter(pa.compute.field("kafka_offset") < 2).select(list(FIELDS)).to_pylist()

    assert rows == [USUAL_ROW, LEAST_ROW]


def test_dates_beyond_the_year_9999_arrive(table: Table) -> None:
    row = table.arrow().filter(pa.compute.field("kafka_offset") == 2)

    assert row["date"].cast(pa.int32()).to_pylist() == [FAR["date"]]
    assert row["timestamp_millis"].cast(pa.int64()).to_pylist() == [400_000_000_000_000_000]
    assert row["local_micros"].cast(pa.int64()).to_pylist() == [FAR["local_micros"]]
