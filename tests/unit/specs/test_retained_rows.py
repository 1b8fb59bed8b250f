"""`maintain.retain_rows`: where rows have an age, and which specs it is refused in."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
from config_files import GOOD, Load

from frazil.model.errors import FrazilError

KEEP = "topic: orders\nmaintain: {retain_rows: 365d}\n"


@pytest.mark.parametrize(("given", "kept"), [("365d", timedelta(days=365)), ("null", None)])
def test_it_is_a_duration_or_null(load: Load, given: str, kept: timedelta | None) -> None:
    (spec,) = load(GOOD, f"topic: orders\nmaintain: {{retain_rows: {given}}}").tables

    assert spec.maintain.retain_rows == kept


@pytest.mark.parametrize(
    ("kind", "spec", "found"),
    [
        ("exports", "table: a\nto: out\nincremental: true\n", "an export of lake.a"),
        ("transforms", "from: a\nsql: SELECT id FROM a\n", "a transformation of lake.a"),
        (
            "transforms",
            "from: b\njoins: [a]\nsql: SELECT b.id FROM b JOIN a USING(id)",
            "a transformation of lake.a",
        ),
    ],
)
def test_what_needs_all_rows_of_a_table_cannot_read_it(load: Load, kind: str, spec: str, found: str) -> None:
    Path(kind).mkdir()
    Path(kind, "reader.yaml").write_text(spec)

    with pytest.raises(FrazilError) as refused:
        load(GOOD, f"{KEEP}table: a\n", "topic: trades\ntable: b\n")

    assert f"{found}, whose old rows go (`retain_rows` in tables/a.yaml)" in refused.value.what


def test_identities_of_deduplicated_rows_may_go(load: Load) -> None:
    (spec,) = load(GOOD, KEEP + "write: deduplicate\nidentity: [id]\n").tables

    assert spec.maintain.retain_rows == timedelta(days=365)


@pytest.mark.parametrize(
    ("more", "found"),
    [
        ("partition_by: [symbol]", "rows go in whole partitions of time, and partition_by has no time"),
        ("write: upsert", "the rows are the state of their keys, which has no age"),
        ("cdc: debezium\nwrite: upsert", "the rows are the state of their keys, which has no age"),
        ("table: t\nroutes: [{table: a, schema: shop.A}]", "the tables of routes and shapes share one state"),
        ("outputs: [{topic: out}]", "the output topics would get deletes of the old rows"),
    ],
)
def test_it_is_refused_where_rows_have_no_age(load: Load, more: str, found: str) -> None:
    with pytest.raises(FrazilError) as refused:
        load(GOOD, f"{KEEP}{more}\n")

    assert f"retain_rows: {found}" in refused.value.what
