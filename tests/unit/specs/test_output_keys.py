"""Specs with output topics, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from frazil.model.errors import FrazilError, SpecError
from frazil.model.outputs import OutputSpec
from frazil.specs.load import load_tables
from tests.routes import group_specs

TO_CLEAN = "outputs: [{topic: orders.clean}]"


def test_an_output_has_the_key_of_the_records_and_the_name_of_its_topic(tmp_path: Path) -> None:
    (table,) = group_specs(tmp_path, f"topic: orders\n{TO_CLEAN}")

    assert table.outputs == (OutputSpec("orders.clean", "orders.clean", key=("kafka_key",)),)


def test_a_table_without_keys_sends_records_without_keys(tmp_path: Path) -> None:
    (table,) = group_specs(tmp_path, f"topic: orders\nkey: none\n{TO_CLEAN}")

    assert table.outputs[0].key == ()


def test_every_key_of_an_output(tmp_path: Path) -> None:
    output = "{topic: t, name: clean, key: [user, symbol], columns: [price], shards: 3}"
    (table,) = group_specs(tmp_path, f"topic: orders\noutputs: [{output}]")

    assert table.outputs == (OutputSpec("t", "clean", ("user", "symbol"), ("price",), 3),)


KEYED = "topic: orders\nwrite: upsert\norder_by: kafka_timestamp"


def test_the_key_of_an_upsert_is_its_identity(tmp_path: Path) -> None:
    (table,) = group_specs(tmp_path, f"{KEYED}\nidentity: [user, day]\non_tombstone: skip\n{TO_CLEAN}")

    assert table.outputs[0].key == ("user", "day")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (f"topic: orders\nwrite: history\n{TO_CLEAN}", "a row is written again when its interval ends"),
        (f"{KEYED}\noutputs: [{{topic: a, key: []}}]", "identity of the row: kafka_key, and the output a has no key"),
        (
            f"{KEYED}\nidentity: [user]\noutputs: [{{topic: a, key: [day]}}]",
            r"user, and the output a has key \['day'\]",
        ),
        (f"{KEYED}\nidentity: [user.id]\n{TO_CLEAN}", "user.id is inside a column"),
        (f"topic: orders\ntable: t\nroutes: [{{table: a, header: {{k: v}}}}]\n{TO_CLEAN}", "a spec for each table"),
        ("topic: orders\noutputs: [{topic: a}, {topic: b, name: a}]", "2 outputs have the name a"),
        ("topic: orders\noutputs: [{topic: orders}]", "would read its own output"),
    ],
)
def test_outputs_that_cannot_be_are_refused(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(FrazilError, match=says):
        group_specs(tmp_path, text)


def test_topics_in_a_circle_are_refused(tmp_path: Path) -> None:
    for topic, to in ("ab", "bc", "ca"):
        (tmp_path / f"{topic}.yaml").write_text(f"topic: {topic}\noutputs: [{{topic: {to}}}]")

    with pytest.raises(SpecError) as refused:
        load_tables(tmp_path, {}, database="lake", catalog_type="jdbc")

    first, *others = [line for line in refused.value.what.splitlines() if ".yaml:" in line]
    assert first.endswith("a.yaml:1:8: topic: the output b goes to b, whose records others send back to a")
    assert len(others) == 2
