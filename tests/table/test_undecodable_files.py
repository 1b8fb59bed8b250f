"""Files that cannot be decoded, because they are damaged or encrypted, are named; storage is not blamed."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.typedef import Record

from frazil.adapters.iceberg.undecodable import UndecodableFileError, decoding, warn_once
from frazil.cli.logs import fields_of
from frazil.materialize.foreign import count_foreign
from frazil.materialize.state import standing
from frazil.model.errors import CatalogError
from frazil.verify.table import verify_table
from tests.position_deletes import delete_rows
from tests.table.small_lake import SmallLake


@pytest.fixture(autouse=True)
def _nothing_logged_before() -> None:
    warn_once.cache_clear()


def damaged_footer(content: bytes) -> bytes:
    length = int.from_bytes(content[-8:-4], "little")
    footer = len(content) - 8 - length
    return content[:footer] + b"\xff" * 40 + content[footer + 40 :]


def encrypted(content: bytes) -> bytes:
    return b"PARE" + content[4:-4] + b"PARE"


def damaged_pages(content: bytes) -> bytes:
    return content[:20] + bytes(200) + content[220:]


def foreign_file(lake: SmallLake, path: Path) -> None:
    """Another writer's file, listed without statistics, so that its footer is read."""
    pq.write_table(pa.table({"symbol": ["a", "b"]}), path)
    file = DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=f"file://{path}",
        file_format=FileFormat.PARQUET,
        partition=Record(),
        record_count=2,
        file_size_in_bytes=path.stat().st_size,
    )
    file.spec_id = 0
    with lake.table.transaction() as transaction, transaction.update_snapshot().fast_append() as commit:
        commit.append_data_file(file)
    lake.restart()


@pytest.mark.parametrize("damage", [damaged_footer, encrypted])
def test_a_foreign_file_that_cannot_be_decoded_is_named_and_does_not_stop_batches(
    lake: SmallLake, damage: Any, caplog: pytest.LogCaptureFixture
) -> None:
    path = lake.folder / "theirs.parquet"
    foreign_file(lake, path)
    path.write_bytes(damage(path.read_bytes()))

    for _ in range(2):
        foreign = count_foreign(standing(lake.view, pipeline=lake.spec.pipeline))
        lake.restart()

    assert (foreign.unsourced_added, foreign.sourced_removed) == (2, 0)
    (told,) = [fields_of(each) for each in caplog.records if each.getMessage() == "file_not_decodable"]
    assert told["file"] == f"file://{path}"
    assert str(told["problem"]).startswith("OSError: ")


def test_position_deletes_that_cannot_be_decoded_are_named(
    lake: SmallLake, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    delete_rows(lake.table, tmp_path)
    deletes = sorted(tmp_path.glob("deletes-*.parquet"))
    for path in deletes:
        path.write_bytes(encrypted(path.read_bytes()))
    lake.restart()

    with caplog.at_level(logging.WARNING):
        count_foreign(standing(lake.view, pipeline=lake.spec.pipeline))

    told = {str(fields_of(each)["file"]) for each in caplog.records if each.getMessage() == "file_not_decodable"}
    assert told
    assert told <= {str(path) for path in deletes} | {f"file://{path}" for path in deletes}


def test_pages_that_cannot_be_decoded_are_an_error_that_names_the_file(lake: SmallLake) -> None:
    path = lake.files()[0]
    path.write_bytes(damaged_pages(path.read_bytes()))

    with pytest.raises(CatalogError) as said:
        verify_table(lake.lake, lake.spec)

    assert said.value.what.startswith(f"lake.orders: the file {path} cannot be decoded: OSError: ")
    assert "credentials" not in said.value.hint
    assert said.value.worth_retrying is False


class Silent:
    """Storage that does not answer."""

    def new_input(self, path: str) -> Any:
        raise OSError(f"no answer about {path}")


def test_storage_that_does_not_answer_is_not_taken_for_a_damaged_file(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="timed out"), decoding(Silent(), "s3://bucket/file"):  # type: ignore[arg-type]
        raise OSError("timed out")


def test_what_is_missing_is_not_taken_for_a_damaged_file(lake: SmallLake) -> None:
    with pytest.raises(FileNotFoundError), decoding(lake.table.io, f"{lake.folder}/gone"):
        raise FileNotFoundError(f"{lake.folder}/gone")


def test_an_undecodable_file_is_wrapped_once(lake: SmallLake) -> None:
    path = f"file://{lake.files()[0]}"
    with pytest.raises(UndecodableFileError) as said, decoding(lake.table.io, path), decoding(lake.table.io, path):
        raise OSError("bad page")

    assert str(said.value) == f"the file {path} cannot be decoded: OSError: bad page"
