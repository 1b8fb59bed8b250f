"""Export specs: what they become, and what is refused where."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from frazil.model.errors import FrazilError
from frazil.model.exports import ExportSpec, ExportWindow
from frazil.model.settings import Settings
from frazil.specs.keys import NoSecrets
from frazil.specs.load import load_exports, load_settings
from tests.unit.specs.config_files import GOOD

WEEKLY = "table: orders\nto: out\nwindow: {column: kafka_timestamp}\n"


def load(folder: Path, spec: str | None, *, more: str = "", name: str = "weekly.yaml") -> Settings:
    for each in ("tables", *(["exports"] if spec is not None else [])):
        (folder / each).mkdir(exist_ok=True)
    (folder / "frazil.yaml").write_text(GOOD + more)
    (folder / "tables" / "orders.yaml").write_text("topic: orders\n")
    if spec is not None:
        (folder / "exports" / name).write_text(spec)
    return load_settings(folder / "frazil.yaml", {}, NoSecrets())


def test_an_export_has_defaults(tmp_path: Path) -> None:
    (export,) = load(tmp_path, WEEKLY).exports

    assert export == ExportSpec(
        source_file=str(tmp_path / "exports" / "weekly.yaml"),
        name="weekly",
        table="lake.orders",
        to=str(tmp_path / "out"),
        window=ExportWindow("kafka_timestamp", "week", "UTC"),
    )


def test_every_key_has_an_effect(tmp_path: Path) -> None:
    given = (
        "table: other.orders\nto: s3://bucket/exports/\nincremental: true\ncolumns: [a, b]\nwhere: a = 1 AND b > 'x'\n"
        "gzip: true\npart_size: 1MB\npart_rows: 5\nformula_guard: false\ntimestamps: wall\nbyte_order_mark: true\n"
        "link: 7d\n"
    )

    (export,) = load(tmp_path, given).exports

    assert (export.table, export.to, export.incremental) == ("other.orders", "s3://bucket/exports", True)
    assert (export.columns, export.where) == (("a", "b"), "a = 1 AND b > 'x'")
    assert (export.gzip, export.part_bytes, export.part_rows, export.ending) == (True, 10**6, 5, ".csv.gz")
    assert (export.formula_guard, export.timestamps, export.byte_order_mark) == (False, "wall", True)
    assert export.link_seconds == 7 * 24 * 60 * 60


def test_exports_are_read_without_settings_and_survive_json(tmp_path: Path) -> None:
    found = load(tmp_path, f"{WEEKLY}columns: [a]\nlink: 1h\n").exports
    (tmp_path / "exports" / "all.yaml").write_text("table: orders\nto: out\nincremental: true\nlink: none\n")

    alone = load_exports(tmp_path / "exports", {}, database="lake")

    assert [each.name for each in alone] == ["all", "weekly"]
    assert alone[1:] == found
    assert tuple(ExportSpec.of_json(json.loads(json.dumps(each.to_json()))) for each in alone) == alone
    assert load_exports(tmp_path / "nowhere", {}, database="lake") == ()


def test_no_folder_means_no_exports(tmp_path: Path) -> None:
    assert load(tmp_path, None).exports == ()


@pytest.mark.parametrize(
    ("spec", "message", "hint"),
    [
        (f"{WEEKLY}colums: [a]\n", "exports/weekly.yaml:4:1: colums: unknown key", "did you mean columns?"),
        ("to: out\nincremental: true\n", "table: required key is missing", ""),
        ("table: orders\nto: out\n", "exactly one of window or incremental must be given, found 0", ""),
        (f"{WEEKLY}incremental: true\n", "exactly one of window or incremental must be given, found 2", ""),
        ("table: orders\nto: out\nincremental: false\n", "incremental: expected true", "give a window"),
        (f"{WEEKLY}where: a = = 1\n", "where: expected a condition", "side = 'BUY' AND quantity > 100"),
        (WEEKLY.replace("}", ", every: year}"), "window.every: expected one of day, week, month", ""),
        *(
            (WEEKLY.replace("}", f", time_zone: {zone}}}"), "window.time_zone: expected a time zone", "Europe/Berlin")
            for zone in ("Berlin", "localtime", "right/UTC", "posix/Europe/Berlin")
        ),
        (WEEKLY.replace("out", "gs://x"), 'to: expected a folder, or s3://bucket/prefix, found "gs://x"', ""),
        (WEEKLY.replace("out", "s3:///x"), "names no bucket", ""),
        (f"{WEEKLY}format: parquet\ngzip: true\n", "gzip: no effect, because format is parquet", "remove gzip"),
        (f"{WEEKLY}link: 400d\n", "link: expected none, or a duration", "1m to 365d"),
        (f"{WEEKLY}part_size: 5GB\n", "part_size: expected a size, found", "at most 4GB"),
        (f"{WEEKLY}link: forever\n", "link: expected none, or a duration", "30s, 5m, 1h, 7d"),
        (WEEKLY.replace("orders", "a.b.c"), "table: expected a table", "`database.table`"),
    ],
)
def test_what_is_wrong_is_named_with_its_line(tmp_path: Path, spec: str, message: str, hint: str) -> None:
    with pytest.raises(FrazilError) as refused:
        load(tmp_path, spec)

    assert message in refused.value.what
    assert hint in refused.value.hint


def test_the_name_of_a_file_is_that_of_the_export(tmp_path: Path) -> None:
    with pytest.raises(FrazilError, match='"a-b" cannot be the name of an export'):
        load(tmp_path, WEEKLY, name="a-b.yaml")


def test_two_files_of_one_name_are_refused(tmp_path: Path) -> None:
    load(tmp_path, WEEKLY)

    with pytest.raises(FrazilError, match="another file has the name weekly, too"):
        load(tmp_path, WEEKLY, name="weekly.yml")


def test_a_folder_that_is_named_must_exist(tmp_path: Path) -> None:
    with pytest.raises(FrazilError, match=r"frazil.yaml:3:10: exports: the folder .*reports does not exist"):
        load(tmp_path, None, more="exports: reports\n")
