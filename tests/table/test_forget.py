"""`frazil forget` finds a value in every file of a table, whatever keeps the file, and in dead letters."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from frazil.adapters.delta.log import DeltaRsLogs
from frazil.adapters.iceberg import traces
from frazil.adapters.iceberg.listing import list_objects
from frazil.adapters.iceberg.sought_value import sought_in
from frazil.adapters.iceberg.source_nulls import FIELD_ID
from frazil.adapters.iceberg.traces import TraceSearch
from frazil.cli.app import run
from frazil.materialize.foreign import count_foreign
from frazil.materialize.readers.delta import announce_delta
from frazil.materialize.state import standing
from frazil.model.errors import CatalogError
from frazil.model.expiry import Expiry
from frazil.model.snapshot import TableView
from frazil.model.traces import LETTER, ROW, STATISTIC, SoughtColumn, SoughtValue, Traces
from frazil.verify.table import verify_table
from tests.position_deletes import delete_rows
from tests.table.small_lake import Read, SmallLake, spec_of

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


def test_a_row_that_a_position_delete_hides_is_found_in_main(lake: SmallLake, tmp_path: Path) -> None:
    delete_rows(lake.table, tmp_path, one_in=1)
    assert lake.table.scan(row_filter="kafka_key = '99'").to_arrow().num_rows == 0

    (row,) = (each for each in search(lake, "99").found if each.kind == ROW)

    assert "main" in row.kept_by


def test_a_file_outside_the_folder_is_found(lake: SmallLake, tmp_path: Path) -> None:
    path = tmp_path / "imported.parquet"
    pq.write_table(pa.table({"symbol": ["imported"]}), path)
    lake.table.add_files([str(path)], check_duplicate_files=False)

    found = search(lake, "imported", "symbol")

    assert [each.kept_by for each in found.found if each.address == str(path)] == [("main",)]
    assert search(lake, "1", "kafka_key").not_decoded == (str(path),)  # it has no ids, and no column of this name


def test_a_shortened_bound_shows_the_beginning_of_a_value(lake: SmallLake) -> None:
    schema = lake.table.schema().as_arrow()
    secret = "ACME-" + "x" * 40
    lake.table.append(pa.Table.from_pylist([{"symbol": secret}], schema=schema))

    found = search(lake, secret, "symbol")

    assert (counts(found, ROW), counts(found, STATISTIC)) == ([1], [2])
    assert counts(search(lake, "ACME-" + "y" * 40, "symbol"), STATISTIC) == []


def test_a_shortened_bound_of_a_file_that_lacks_the_value_is_that_of_another(lake: SmallLake) -> None:
    schema = lake.table.schema().as_arrow()
    lake.table.append(pa.Table.from_pylist([{"symbol": "customer-0000000000018"}], schema=schema))

    assert search(lake, "customer-0000000000017", "symbol").found == ()


def test_bounds_of_dead_letters_show_their_keys(lake: SmallLake) -> None:
    dead = lake.dead_view.current
    dead.delete("offset = 10")  # its file is written again, and named as removed with its bounds

    found = TraceSearch(sought_in(lake.view, "kafka_key", "10"), letters=True).find(lake.dead_view)

    shown = [each for each in found.found if each.kind == STATISTIC]
    assert any("main" in each.kept_by for each in shown)


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


def test_after_an_erasure_and_an_expiry_no_file_has_a_trace(lake: SmallLake) -> None:
    lake.table.delete("kafka_key = '99'")
    removed = count_foreign(standing(lake.view, pipeline=lake.spec.pipeline))
    lake.state = replace(lake.state, foreign=removed)  # as each batch does
    lake.batch(Read("orders", 0, 100, 110))
    before = lake.view
    gone = tuple(each for each in before.snapshots if each != before.head)

    lake.lake.expire(before, Expiry(gone))
    lake.lake.delete_unreachable(before, gone, named_elsewhere=tuple)

    assert search(lake, "99").found == ()
    assert search(lake, "98").found
    assert [f for check in verify_table(lake.lake, lake.spec).checks for f in check.findings] == []


def test_partition_values_are_found_in_manifests_and_manifest_lists(tmp_path: Path) -> None:
    lake = SmallLake(tmp_path / "warehouse", spec_of("orders", partition_by=("symbol",)))
    lake.batch(Read("orders", 0, 0, 7))

    shown = [each for each in search(lake, "S6", "symbol").found if each.kind == STATISTIC]

    assert {Path(each.address).name.startswith("snap-") for each in shown} == {True, False}


def test_a_column_in_a_struct_is_found_by_its_field_id(lake: SmallLake) -> None:
    ids = pa.field("id", pa.int32(), metadata={FIELD_ID: "901"})
    customer = pa.field("renamed", pa.struct([ids]), metadata={FIELD_ID: "900"})
    left = pa.table({"renamed": [{"id": 17}, None, {"id": 17}, {"id": 18}]}, schema=pa.schema([customer]))
    pq.write_table(left, folder(lake) / "data" / "left.parquet")

    (row,) = TraceSearch(SoughtValue("customer.id", "17", (SoughtColumn(901, 17, "renamed.id"),))).find(lake.view).found

    assert (row.kind, row.count) == (ROW, 2)


def test_a_file_that_cannot_be_read_ends_the_search(lake: SmallLake) -> None:
    (folder(lake) / "data" / "cut.parquet").write_bytes(b"PAR1")

    with pytest.raises(CatalogError, match=r"cut\.parquet"):
        search(lake, "99")


def test_a_file_that_is_deleted_meanwhile_has_no_trace(lake: SmallLake, monkeypatch: pytest.MonkeyPatch) -> None:
    def listed(view: TableView) -> list[str]:
        return [*addresses_of(view), str(folder(lake) / "data" / "expired.parquet")]

    addresses_of = traces._addresses
    monkeypatch.setattr(traces, "_addresses", listed)

    found = search(lake, "nowhere")

    assert (found.found, found.not_decoded, found.looked_through[traces.DELETED]) == ((), (), 1)


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
        (["--key", "1", "--drop-pins"], "--drop-pins is for --confirm"),
        (["--where", "symbol"], "expected COLUMN=VALUE"),
        (["--key", ""], '--key: "" has no letter and no digit'),
        (["--where", "symbol=- "], '--where: "- " has no letter and no digit'),
        (["--key", "", "--confirm"], '--key: "" has no letter and no digit'),
        (["--where", "colour=red"], "has no column colour"),
        (["--where", "kafka_offset=many"], "found many"),
        (["--where", "kafka_offset=1_000"], "found 1_000"),
        (["--where", f"kafka_offset={2**63}"], f"found {2**63}"),
        (["--where", f"kafka_partition={2**31}"], f"found {2**31}"),
        (["--where", "kafka_timestamp=1"], "expected a column of strings, ints or longs"),
    ],
)
def test_what_cannot_be_searched_is_refused(config: str, options: list[str], problem: str, capsys: Captured) -> None:
    assert run(["forget", "orders", *options, "--config", config]) == 2

    assert problem in capsys.readouterr().err
