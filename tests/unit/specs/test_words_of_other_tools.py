"""Hints for words that other tools use."""

from __future__ import annotations

import pytest
from config_files import GOOD, Load

from frazil.model.errors import SettingError
from frazil.specs.keys import Section
from frazil.specs.route_keys import ROUTE
from frazil.specs.shape_keys import SHAPE
from frazil.specs.table_section import TABLE_SECTION


@pytest.mark.parametrize(
    ("spec", "hint"),
    [
        ("write: upsert\non_tombstone: delete", "a record without a value deletes the row of its key"),
        ("write: merge", "use upsert"),
        ("write: SCD2", "use history"),
        ("write: cdc", "use write: upsert, and cdc: debezium beside it"),
    ],
)
def test_a_word_of_another_tool_is_answered_with_ours(load: Load, spec: str, hint: str) -> None:
    with pytest.raises(SettingError) as refused:
        load(GOOD, f"topic: a\n{spec}")

    assert refused.value.hint is not None
    assert refused.value.hint.endswith(hint)


@pytest.mark.parametrize(
    ("line", "hint"),
    [
        ("primary_key: [id]", "write identity: [column] with write: deduplicate"),
        ("primaryKey: [id]", "write identity: [column] with write: deduplicate"),
        ("unique_key: id", "write: upsert keeps the newest record of each key"),
        ("mode: upsert", "use write: append, upsert, deduplicate or history"),
        ("write_disposition: merge", "use write: append, upsert, deduplicate or history"),
        ("precombine_field: at", "use order_by"),
        ("partitioned_by: [day(at)]", "use partition_by"),
        ("format: json", "use value for the format"),
        ("schema: shop.Order", "below routes"),
        ("header: {source: web}", "below routes"),
    ],
)
def test_a_key_of_another_tool_is_answered_with_ours(load: Load, line: str, hint: str) -> None:
    with pytest.raises(SettingError) as refused:
        load(GOOD, f"topic: a\n{line}")

    assert "unknown key" in refused.value.what
    assert hint in (refused.value.hint or "")


def _keys_of_the_spec_alone(section: Section, name: str) -> list[tuple[str, str]]:
    own = {key.name for key in section.keys}
    return [(name, key.name) for key in TABLE_SECTION.keys if key.name not in own]


@pytest.mark.parametrize(
    ("section", "key"), [*_keys_of_the_spec_alone(ROUTE, "routes"), *_keys_of_the_spec_alone(SHAPE, "shapes")]
)
def test_a_key_of_the_spec_in_one_of_its_tables_is_sent_back(load: Load, section: str, key: str) -> None:
    with pytest.raises(SettingError) as refused:
        load(GOOD, f"topic: a\ntable: b\n{section}: [{{table: c, {key}: x}}]")

    assert f"{section}[0].{key}: unknown key" in refused.value.what
    assert any(each in (refused.value.hint or "") for each in (f"beside {section}", "write one spec per table"))
