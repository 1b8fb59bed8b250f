"""Writers change their schemas while the table is being written: safely, unsafely, and fixed."""

from __future__ import annotations

import pytest
from breadth import Place, Table, catch_up, encode, receipts, record_of, registry_client

from frazil.model.errors import IncompatibleSchemaError, PausedError

V1 = record_of(("id", "int"), ("price", "float"), ("note", "string"))


def test_additions_widenings_renames_and_drops_reach_a_running_table(place: Place) -> None:
    topic = place.topic()
    run = place.run(f"topic: {topic}")
    first = place.register(f"{topic}-value", V1)
    place.send(topic, *encode(V1, first, {"id": 1, "price": 0.5, "note": "a"}))
    catch_up(run)
    v2 = record_of(("id", "long"), ("price", "double"), ("remark", "string", "note"), ("new", ["null", "int"]))
    second = place.register(f"{topic}-value", v2)
    place.send(topic, *encode(v2, second, {"id": 2**40, "price": 0.1, "remark": "b", "new": 5}))
    place.send(topic, *encode(V1, first, {"id": 3, "price": 1.5, "note": "c"}))
    catch_up(run)
    v3 = record_of(("id", "long"), ("new", ["null", "int"]))
    place.send(topic, *encode(v3, place.register(f"{topic}-value", v3), {"id": 4, "new": None}))
    catch_up(run)

    table = place.materialize(f"topic: {topic}")

    assert list(table.types.items())[:3] == [("id", "long"), ("price", "double"), ("remark", "string")]
    assert table.rows("id", "price", "remark", "new") == [
        {"id": 1, "price": 0.5, "remark": "a", "new": None},
        {"id": 2**40, "price": 0.1, "remark": "b", "new": 5},
        {"id": 3, "price": 1.5, "remark": "c", "new": None},
        {"id": 4, "price": None, "remark": None, "new": None},
    ]


def test_a_schema_that_only_records_name_is_met_and_absorbed_within_one_run(place: Place) -> None:
    """The subject's latest schema does not say everything: producers may use any id."""
    topic = place.topic(partitions=2)
    first = place.register(f"{topic}-value", V1)
    other = record_of(("id", "int"), ("elsewhere", "string"))
    other_id = place.register(f"{place.name}-elsewhere", other)
    row = {"id": 1, "price": 0.5, "note": "a"}
    place.send(topic, *encode(V1, first, row, row), *encode(other, other_id, {"id": 2, "elsewhere": "x"}))
    place.send(topic, *encode(V1, first, row), partition=1)
    run = place.run(f"topic: {topic}")

    batches = receipts(catch_up(run))

    assert [batch.counts.rows for batch in batches] == [3, 1]
    assert place.materialize(f"topic: {topic}").rows("id", "elsewhere")[2] == {"id": 2, "elsewhere": "x"}


def test_nested_changes_reach_structs_in_lists_and_maps(place: Place) -> None:
    topic = place.topic()

    def order(*line: tuple[object, ...]) -> dict[str, object]:
        lines = {"type": "array", "items": record_of(*line, name="Line")}
        return record_of(("lines", lines), ("by", {"type": "map", "values": "Line"}))

    old, new = order(("a", "int")), order(("b", "long", "a"), ("c", ["null", "string"]))
    place.send(topic, *encode(old, place.register(f"{topic}-value", old), {"lines": [{"a": 1}], "by": {"k": {"a": 2}}}))
    run = place.run(f"topic: {topic}")
    catch_up(run)
    sent = {"lines": [{"b": 2**40, "c": "x"}], "by": {"k": {"b": 3, "c": None}}}
    place.send(topic, *encode(new, place.register(f"{topic}-value", new), sent))
    catch_up(run)

    rows = place.materialize(f"topic: {topic}").rows("lines", "by")

    assert rows == [
        {"lines": [{"b": 1, "c": None}], "by": [("k", {"b": 2, "c": None})]},
        {"lines": sent["lines"], "by": [("k", {"b": 3, "c": None})]},
    ]


def test_a_partition_column_may_be_widened_and_renamed(place: Place) -> None:
    topic = place.topic()
    old, new = record_of(("n", "int")), record_of(("m", "long", "n"))
    first = place.register(f"{topic}-value", old)
    place.send(topic, *encode(old, first, {"n": 1}))
    run = place.run(f"topic: {topic}\npartition_by: [n]")
    catch_up(run)
    place.send(topic, *encode(new, place.register(f"{topic}-value", new), {"m": 2**40}), *encode(old, first, {"n": 1}))
    catch_up(run)

    table = place.materialize(f"topic: {topic}\npartition_by: [m]")

    assert table.rows("m") == [{"m": 1}, {"m": 2**40}, {"m": 1}]


def test_an_unsafe_change_pauses_with_every_finding_and_resume_goes_on_once_it_is_mended(place: Place) -> None:
    topic = place.topic()
    first = place.register(f"{topic}-value", record_of(("id", "int"), ("in", record_of(("x", "int"), name="In"))))
    v1 = record_of(("id", "int"), ("in", record_of(("x", "int"), name="In")))
    place.send(topic, *encode(v1, first, {"id": 1, "in": {"x": 1}}))
    run = place.run(f"topic: {topic}")
    catch_up(run)
    bad = record_of(("id", "string"), ("in", record_of(("x", "boolean"), name="In")), ("fine", "int"))
    place.register(f"{topic}-value", bad)
    place.send(topic, *encode(v1, first, {"id": 2, "in": {"x": 2}}))

    with pytest.raises(IncompatibleSchemaError) as refused:
        run.batch()
    with pytest.raises(PausedError) as still:
        run.batch()

    assert "2 findings" in refused.value.what
    assert "  - id: is string in the writer's schema, the table has int" in refused.value.what
    assert "  - in.x: is boolean in the writer's schema, the table has int" in refused.value.what
    assert refused.value.what.splitlines()[1].strip("- ").split(":")[0] in still.value.what
    table = place_table(place, topic)
    assert table.paused is not None
    assert table.paused["by"] == "frazil"
    assert "fine" not in table.types
    assert len(table.rows()) == 1

    v2 = record_of(("id", "long"), ("in", record_of(("x", "int"), name="In")))
    place.send(topic, *encode(v2, place.register(f"{topic}-value", v2), {"id": 3, "in": {"x": 3}}))
    table.resume()
    catch_up(run)

    assert [row["id"] for row in place_table(place, topic).rows()] == [1, 2, 3]


def test_old_and_new_writers_take_turns_and_a_schema_goes_back(place: Place) -> None:
    topic = place.topic()
    old, new = record_of(("id", "int")), record_of(("id", "long"), ("note", ["null", "string"]))
    first, second = place.register(f"{topic}-value", old), place.register(f"{topic}-value", new)
    for number in range(0, 6, 2):
        place.send(topic, *encode(old, first, {"id": number}), *encode(new, second, {"id": number + 1, "note": "n"}))
    run = place.run(f"topic: {topic}")
    catch_up(run)
    assert place.register(f"{topic}-value", record_of(("id", "int"), ("note", ["null", "string"]))) > second
    place.send(topic, *encode(old, first, {"id": 6}))
    catch_up(run)

    table = place.materialize(f"topic: {topic}")

    assert table.types["id"] == "long"
    assert table.rows("id", "note") == [{"id": number, "note": "n" if number % 2 else None} for number in range(7)]


def test_a_field_of_another_type_fills_a_column_of_its_own_at_every_level(place: Place) -> None:
    topic = place.topic()

    def order(price: str) -> dict[str, object]:
        return record_of(("price", price), ("items", {"type": "array", "items": record_of(("p", price), name="Item")}))

    old, new = order("string"), order("double")
    first = place.register(f"{topic}-value", old)
    text, number = {"price": "1.5", "items": [{"p": "a"}]}, {"price": 1.5, "items": [{"p": 0.5}]}
    place.send(topic, *encode(old, first, text))
    run = place.run(f"topic: {topic}\non_incompatible_schema: new_column")
    catch_up(run)
    second = place.register(f"{topic}-value", new)
    place.send(topic, *encode(new, second, number), *encode(old, first, text), *encode(new, second, number))
    changes = [change for receipt in receipts(catch_up(run)) for change in receipt.schema_changes]
    place.register(f"{topic}-value", record_of(("price", "string")))
    place.send(topic, *encode(old, first, text))

    table = place.materialize(f"topic: {topic}\non_incompatible_schema: new_column")

    assert changes == [
        "add column price__v2: double, beside price",
        "add column items[].p__v2: double, beside items[].p",
    ]
    texts = {"price": "1.5", "price__v2": None, "items": [{"p": "a", "p__v2": None}]}
    numbers = {"price": None, "price__v2": 1.5, "items": [{"p": None, "p__v2": 0.5}]}
    assert table.rows("price", "price__v2", "items") == [texts, numbers, texts, numbers, texts]


def test_records_of_a_softly_deleted_version_are_rows(place: Place) -> None:
    """Its id is still known to the registry, as to a consumer that reads with it."""
    topic = place.topic()
    old, new = record_of(("id", "int")), record_of(("id", "int"), ("note", ["null", "string"]))
    first, second = place.register(f"{topic}-value", old), place.register(f"{topic}-value", new)
    registry_client(place.services).delete_version(f"{topic}-value", 1)
    place.send(topic, *encode(old, first, {"id": 1}), *encode(new, second, {"id": 2, "note": "n"}))

    table = place.materialize(f"topic: {topic}")

    assert table.rows("id", "note") == [{"id": 1, "note": None}, {"id": 2, "note": "n"}]


def place_table(place: Place, topic: str) -> Table:
    """The table as it is, without another batch."""

    return Table(place.run(f"topic: {topic}"))
