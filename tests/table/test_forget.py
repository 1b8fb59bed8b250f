"""`frazil forget` finds a value in every file of a table, whatever keeps the file, and in dead letters."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from frazil.adapters.delta.log import DeltaRsLogs
from frazil.adapters.iceberg.orphans import list_objects
from frazil.adapters.iceberg.sought_value import sought_in
from frazil.adapters.iceberg.traces import TraceSearch
from frazil.cli.app import run
from frazil.materialize.readers.delta import announce_delta
from frazil.model.errors import CatalogError
from frazil.model.traces import LETTER, ROW, STATISTIC, Traces
from tests.table.small_lake import SmallLake

Captured = pytest.CaptureFixture[str]


def search(lake: SmallLake, text: str, column: str = "kafka_key") -> Traces:
    return TraceSearch(sought_in(lake.view, column, text)).find(lake.view)


def counts(traces: Traces, kind: str) -> list[int]:
    return [each.count for each in traces.found if each.kind == kind]


def folder(lake: SmallLake) -> Path:
    return Path(lake.view.location.removeprefix("file://"))


def test_rows_and_bounds_are_found_and_what_keeps_them_is_named(lake: SmallLake) -> None:
    traces = search(lake, "99")

    (row,) = (each for each in traces.found if each.kind == ROW)
    assert row.count == 1
    assert {"main", "tag frazil_checkpoint"} <= set(row.kept_by)
    assert counts(traces, STATISTIC)  # 99 is the greatest key of its file


def test_a_value_that_was_never_there_has_no_trace_and_every_file_was_decoded(lake: SmallLake) -> None:
    traces = search(lake, "nowhere")

    assert (traces.found, traces.not_decoded) == ((), ())
    objects = list_objects(lake.view.current.io, str(folder(lake)))
    assert sum(traces.looked_through.values()) == len(objects) > 0


def test_a_deleted_row_is_found_until_its_file_is_gone(lake: SmallLake) -> None:
    lake.table.delete("kafka_key = '99'")

    (row,) = (each for each in search(lake, "99").found if each.kind == ROW)

    assert "main" not in row.kept_by
    assert row.kept_by


def test_a_file_that_no_snapshot_has_is_found(lake: SmallLake) -> None:
    schema = lake.view.current.schema().as_arrow()
    left = pa.table({field.name: [None] for field in schema}, schema=schema.remove_metadata())
    left = left.set_column(
        schema.get_field_index("symbol"), schema.field("symbol"), pa.array(["left"], schema.field("symbol").type)
    )
    pq.write_table(left, folder(lake) / "data" / "left.parquet")

    (row,) = search(lake, "left", "symbol").found

    assert (row.kind, row.count, row.kept_by) == (ROW, 1, ())


def test_the_delta_log_shows_bounds(lake: SmallLake) -> None:
    announce_delta(lake.lake, lambda: DeltaRsLogs(lake.lake.storage), lake.view)

    logged = [each for each in search(lake, "99").found if "/_delta_log/" in each.address]

    assert [each.kind for each in logged] == [STATISTIC]


def test_dead_letters_are_found_by_the_text_in_their_payloads(lake: SmallLake) -> None:
    payload = next(bytes(each) for each in lake.dead_view.current.scan().to_arrow()["value"].to_pylist() if each)

    traces = TraceSearch(sought_in(lake.view, "symbol", payload.decode()), letters=True).find(lake.dead_view)

    assert counts(traces, LETTER)


def test_a_file_that_cannot_be_read_ends_the_search(lake: SmallLake) -> None:
    (folder(lake) / "data" / "cut.parquet").write_bytes(b"PAR1")

    with pytest.raises(CatalogError, match=r"cut\.parquet"):
        search(lake, "99")


def test_the_command_names_what_it_cannot_search(config: str, lake: SmallLake, capsys: Captured) -> None:
    head = lake.view.head

    assert run(["forget", "orders", "--key", "99", "--config", config]) == 0
    said = capsys.readouterr().out
    assert "lake.orders: traces of kafka_key = 99; looked through" in said
    assert "not searched:\n  Kafka" in said
    assert run(["forget", "orders", "--where", "symbol=none", "--json", "--config", config]) == 0
    assert [each["found"] for each in json.loads(capsys.readouterr().out)["tables"]] == [[], []]
    assert lake.view.head == head


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ([], "expected one of --key and --where"),
        (["--key", "1", "--confirm"], "removes nothing"),
        (["--where", "symbol"], "expected COLUMN=VALUE"),
        (["--where", "colour=red"], "has no column colour"),
        (["--where", "kafka_offset=many"], "found many"),
        (["--where", "kafka_timestamp=1"], "expected a column of strings, ints or longs"),
    ],
)
def test_what_cannot_be_searched_is_refused(config: str, options: list[str], problem: str, capsys: Captured) -> None:
    assert run(["forget", "orders", *options, "--config", config]) == 2

    assert problem in capsys.readouterr().err
