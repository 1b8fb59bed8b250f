"""A value is looked for, and erased, in each column that ever had the name: files keep values of dropped columns."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import count
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.types import DoubleType, IntegerType, LongType, StringType

from frazil.adapters.iceberg.sought_value import sought_in
from frazil.adapters.iceberg.traces import TraceSearch
from frazil.cli.app import run
from frazil.forget.perform import Erased, Erasure
from frazil.model.errors import ErasureError
from frazil.model.traces import LETTER, ROW
from frazil.verify.table import verify_table
from tests.table.column_changes import make_again
from tests.table.small_lake import SmallLake

NOW = datetime(2026, 2, 1, tzinfo=UTC)
_NUMBERS = count()

Captured = pytest.CaptureFixture[str]


def rows_found(lake: SmallLake, column: str, text: str) -> int:
    found = TraceSearch(sought_in(lake.view, column, text)).find(lake.view).found
    return sum(each.count for each in found if each.kind == ROW)


def erase(lake: SmallLake, column: str, text: str) -> Erased:
    sought = sought_in(lake.view, column, text)
    return Erasure(lake.lake, lake.spec, sought, "tester", lambda: NOW, lambda: f"e{next(_NUMBERS)}").perform()


def is_clean(lake: SmallLake) -> bool:
    lake.restart()
    return verify_table(lake.lake, lake.spec).findings == ()


def add_rows(lake: SmallLake, *rows: dict[str, object]) -> None:
    lake.table.append(pa.Table.from_pylist(list(rows), schema=lake.table.schema().as_arrow()))


def rename(lake: SmallLake, column: str, to: str) -> None:
    with lake.table.update_schema(allow_incompatible_changes=True) as update:
        update.rename_column(column, to)
    lake.restart()


def test_a_value_of_a_dropped_column_whose_name_was_given_anew_is_erased(lake: SmallLake) -> None:
    add_rows(lake, {"symbol": "theirs"}, {"symbol": "other"})
    make_again(lake, "lake.orders", "symbol")
    add_rows(lake, {"symbol": "theirs"})
    before = lake.table.scan().to_arrow().num_rows
    assert rows_found(lake, "symbol", "theirs") == 2

    done = erase(lake, "symbol", "theirs")

    assert (done.rows, done.is_complete) == (2, True)
    assert lake.table.scan().to_arrow().num_rows == before - 2
    assert rows_found(lake, "symbol", "theirs") == 0
    assert is_clean(lake)


def test_nothing_is_erased_while_files_have_the_values_of_a_column_that_the_proof_needs(lake: SmallLake) -> None:
    """Files that are written anew would not have them, and they could not be restored."""
    make_again(lake, "lake.orders", "kafka_offset")

    with pytest.raises(ErasureError, match="made the column kafka_offset again, and files have earlier values"):
        erase(lake, "symbol", "theirs")


def test_a_value_of_a_column_that_was_dropped_for_good_is_erased(lake: SmallLake) -> None:
    add_rows(lake, {"symbol": "theirs"}, {"symbol": "other"})
    with lake.table.update_schema(allow_incompatible_changes=True) as update:
        update.delete_column("symbol")
    lake.restart()

    done = erase(lake, "symbol", "theirs")

    assert (done.rows, done.is_complete) == (1, True)


def test_the_value_is_sought_in_the_type_that_each_column_has_or_had(lake: SmallLake) -> None:
    with lake.table.update_schema() as update:
        update.add_column("customer", LongType())
    lake.restart()
    add_rows(lake, {"symbol": "before", "customer": 17})
    make_again(lake, "lake.orders", "customer", kind=StringType())
    add_rows(lake, {"symbol": "typed", "customer": "017"}, {"symbol": "other", "customer": "17"})

    done = erase(lake, "customer", "017")

    assert (done.rows, done.is_complete) == (2, True)
    assert {"before", "typed"}.isdisjoint(lake.table.scan().to_arrow()["symbol"].to_pylist())


def test_rows_of_a_column_with_another_name_now_are_found_and_stay(lake: SmallLake) -> None:
    add_rows(lake, {"symbol": "theirs"})
    rename(lake, "symbol", "ticker")
    with lake.table.update_schema() as update:
        update.add_column("symbol", StringType())
    lake.restart()
    add_rows(lake, {"symbol": "theirs", "ticker": "new"})

    done = erase(lake, "symbol", "theirs")

    assert (done.rows, done.is_complete) == (1, False)
    assert lake.table.scan(row_filter="ticker = 'theirs'").to_arrow().num_rows == 1
    assert rows_found(lake, "symbol", "theirs") == 1
    assert erase(lake, "ticker", "theirs").is_complete
    assert rows_found(lake, "symbol", "theirs") == 0


def test_a_column_with_another_name_is_searched_in_the_type_that_it_has_now(lake: SmallLake) -> None:
    with lake.table.update_schema() as update:
        update.add_column("customer", IntegerType())
    rename(lake, "customer", "buyer")
    with lake.table.update_schema() as update:
        update.update_column("buyer", LongType())
        update.add_column("customer", LongType())
    lake.restart()
    add_rows(lake, {"buyer": 2**40})

    assert rows_found(lake, "customer", str(2**40)) == 1


def test_the_command_says_which_columns_had_the_name(config: str, lake: SmallLake, capsys: Captured) -> None:
    add_rows(lake, {"symbol": "theirs"})
    rename(lake, "symbol", "ticker")

    assert run(["forget", "orders", "--where", "symbol=theirs", "--config", config]) == 0
    assert "searched, too: ticker, which had the name symbol before" in capsys.readouterr().out
    with pytest.raises(ErasureError, match="symbol is called ticker now"):
        erase(lake, "symbol", "theirs")


def test_earlier_columns_of_types_that_cannot_be_searched_are_named(
    config: str, lake: SmallLake, capsys: Captured
) -> None:
    with lake.table.update_schema() as update:
        update.add_column("amount", DoubleType())
    lake.restart()
    make_again(lake, "lake.orders", "amount", kind=StringType())

    assert run(["forget", "orders", "--where", "amount=17", "--config", config]) == 0

    assert "not searched:\n  an earlier column amount, a double with the field id" in capsys.readouterr().out


def test_a_number_is_sought_in_dead_letters_as_the_column_shows_it(lake: SmallLake) -> None:
    letters = TraceSearch(sought_in(lake.view, "kafka_offset", "010"), letters=True).find(lake.dead_view).found

    assert [each.count for each in letters if each.kind == LETTER] == [1]


def test_folders_of_partitions_are_known_by_an_earlier_name_of_the_column(lake: SmallLake, tmp_path: Path) -> None:
    with lake.table.update_spec() as update:
        update.add_identity("symbol")
    lake.restart()
    add_rows(lake, {"symbol": "theirs"})
    rename(lake, "symbol", "ticker")
    left = Path(lake.view.location.removeprefix("file://")) / "metadata" / "0-0.metadata.json"
    left.write_text('{"partitions.symbol=theirs": "1", "partitions.symbol=theirs2": "1"}')

    found = TraceSearch(sought_in(lake.view, "ticker", "theirs")).find(lake.view).found

    assert [each.count for each in found if each.address == str(left)] == [1]


def test_texts_of_an_imported_file_without_ids_are_not_compared_as_numbers(lake: SmallLake, tmp_path: Path) -> None:
    with lake.table.update_schema() as update:
        update.add_column("customer", LongType())
    lake.restart()
    make_again(lake, "lake.orders", "customer", kind=StringType())
    path = tmp_path / "imported.parquet"
    pq.write_table(pa.table({"customer": ["17", "017"]}), path)
    lake.table.add_files([str(path)], check_duplicate_files=False)

    assert rows_found(lake, "customer", "017") == 1
