"""The benchmark's reports say which system is wrong, which target is missed, and draw bars to scale."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import duckdb
import pytest

from bench import comparison, lakes, picture, sections, shapes, stacks, subjects, sweeps
from bench.bars import Bars, svg
from bench.comparison import SYSTEMS, Target
from bench.lakes import Contents
from bench.measure import Cost, read_costs, write_costs
from bench.subjects import CONNECT, FRAZIL, SPARK, Run

SUMS = {"order_id": 1, "created_at": 2, "kafka_key": 3}


def run_of(system: str, cpu_seconds: float, *, wall: float = 1.0, rows: int = 100, jvm: int = 300, **sums: int) -> Run:
    return Run(system, Cost(system, 100, wall, cpu_seconds, jvm, 200), Contents(rows, 2, 5_000, {**SUMS, **sums}))


@pytest.fixture
def runs() -> list[Run]:
    return [
        *(run_of(FRAZIL.name, seconds) for seconds in (1.0, 1.0, 2.0)),
        *(run_of(SPARK.name, 4.0, wall=2.0) for _ in range(3)),
        *(run_of(CONNECT.name, 4.0, created_at=9) for _ in range(3)),
    ]


def test_costs_are_read_as_they_were_written(tmp_path: Path) -> None:
    costs = [Cost("a", 10, 2.0, 4.0, 300, 200), Cost("b", 1, 1.0, 1.0, 1, 1)]

    write_costs(tmp_path / "costs.json", costs)

    assert read_costs(tmp_path / "costs.json") == costs


def test_each_round_begins_with_another_system() -> None:
    rounds = [comparison.in_turn(number) for number in range(4)]

    assert [turn[0] for turn in rounds] == [*SYSTEMS, SYSTEMS[0]]
    assert all(sorted(system.name for system in turn) == sorted(system.name for system in SYSTEMS) for turn in rounds)


def test_ratios_are_those_of_a_round(runs: list[Run]) -> None:
    assert comparison.ratios(SPARK.name, runs, comparison.cpu) == [4.0, 4.0, 2.0]
    assert comparison.ratios(SPARK.name, runs, comparison.wall) == [2.0, 2.0, 2.0]


def test_targets_that_are_missed_are_marked(runs: list[Run]) -> None:
    met = {target.measure.partition(",")[0]: target.is_met for target in comparison.targets(runs)}

    assert met == {
        "rows per CPU-second against Structured Streaming": True,
        "rows per CPU-second against Kafka Connect sink": False,
        "wall time against Structured Streaming": False,
        "memory of the JVM": True,
        "memory of a worker": True,
    }


def test_a_limit_that_may_not_be_exceeded_says_so() -> None:
    assert str(Target("memory", 406, 407, " MB", at_most=True)) == "| memory | ≤ 406 MB | 407 MB | **no** |"
    assert Target("memory", 406, 406, " MB", at_most=True).is_met
    assert str(Target("speed", 3, 3)) == "| speed | ≥ 3 times | 3.00 times | yes |"


def test_wrong_cells_of_a_peer_are_named(runs: list[Run]) -> None:
    assert comparison.verdict(SPARK.name, runs, 100) == "- Structured Streaming: 100 rows in each run; 3 columns equal."
    assert comparison.verdict(CONNECT.name, runs, 100) == (
        "- Kafka Connect sink: 100 rows in each run; 2 columns equal; **wrong values in `created_at`**."
    )


def test_a_wrong_number_of_rows_is_named(runs: list[Run]) -> None:
    runs[3] = run_of(SPARK.name, 4.0, rows=99)

    assert "**wrong number of rows: 99 of 100**" in comparison.verdict(SPARK.name, runs, 100)


def test_the_report_has_a_row_for_each_run(runs: list[Run]) -> None:
    report = comparison.report(runs, 100)

    assert len(re.findall(r"^\| (Frazil|Structured|Kafka)", report, re.MULTILINE)) == len(runs) + 1


def test_checksums_tell_which_record_has_which_cell(tmp_path: Path) -> None:
    cells = {
        "same": "(0, 0, 'a'), (0, 1, 'b')",
        "other_order": "(0, 1, 'b'), (0, 0, 'a')",
        "swapped": "(0, 0, 'b'), (0, 1, 'a')",
    }
    for name, values in cells.items():
        table = f"(VALUES {values}) t(kafka_partition, kafka_offset, v)"
        duckdb.sql(f"COPY (SELECT * FROM {table}) TO '{tmp_path / name}' (FORMAT parquet)")

    rows, sums = zip(*(lakes.checksums_of([str(tmp_path / name)]) for name in cells), strict=True)

    assert rows == (2, 2, 2)
    assert sums[0] == sums[1]
    assert {name for name in sums[0] if sums[0][name] != sums[2][name]} == {"v"}


def test_columns_of_one_table_only_are_not_compared() -> None:
    here, there = Contents(1, 1, 1, {"a": 1, "b": 2}), Contents(1, 1, 1, {"b": 3, "c": 4})

    assert here.different_from(there) == ("b",)


def test_rows_are_counted_in_the_current_snapshot() -> None:
    snapshots = [
        {"snapshot-id": 1, "summary": {"total-records": "5"}},
        {"snapshot-id": 2, "summary": {"total-records": "7"}},
    ]

    assert lakes.total_records({"current-snapshot-id": 1, "snapshots": snapshots}) == 5
    assert lakes.total_records({"current-snapshot-id": None, "snapshots": []}) == 0


def test_bars_are_drawn_to_scale() -> None:
    drawn = svg([Bars("rows", {"a & b": {"x": 1.0, "y": 2.0}, "c": {"x": 1.5}}, "{:.1f}")])

    rects = ElementTree.fromstring(drawn).findall(".//{*}g/{*}rect")
    widths = [float(rect.attrib["width"]) for rect in rects]
    assert widths[1] == pytest.approx(2 * widths[0], abs=0.2)
    assert widths[2] == pytest.approx(1.5 * widths[0], abs=0.2)
    assert rects[0].attrib["fill"] == rects[2].attrib["fill"] != rects[1].attrib["fill"]
    assert float(rects[1].attrib["x"]) == pytest.approx(float(rects[0].attrib["x"]) + widths[0], abs=0.2)


def test_the_rest_is_what_the_stages_leave() -> None:
    stages = {"fetch, native": 0.5, "decode, native": 0.25, "encode": 0.75, "decode, fallback": 30.0}

    assert picture.split(2.0, stages) == {"fetch": 0.5, "decode": 0.25, "encode": 0.75, "the rest": 0.5}
    assert picture.split(1.0, stages)["the rest"] == 0.0


def test_the_picture_has_a_bar_for_each_system_and_stage(
    runs: list[Run], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(picture, "PICTURE", tmp_path / "peers.svg")

    picture.draw(runs, {"fetch, native": 1_000.0, "decode, native": 500.0, "encode": 2_000.0})

    drawn = ElementTree.fromstring((tmp_path / "peers.svg").read_text())
    by_system, stages_of = ([*panel.iterfind("{*}rect")] for panel in drawn.iterfind("{*}g"))
    assert len(by_system) == len(SYSTEMS)
    assert len(stages_of) == 4 + len(SYSTEMS) - 1


def test_the_stages_are_compared_with_the_median_run(runs: list[Run]) -> None:
    report = picture.stages_report({"fetch, native": 2_500.0, "decode, native": 2_500.0, "encode": 2_000.0}, runs)

    assert "| stages alone, as a share of all of Frazil | ≥ 65 % | 70.00 % | yes |" in report


def test_a_section_replaces_its_own_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sections, "RESULTS", tmp_path / "RESULTS.md")
    sections.put_first("# Results\n")
    for title in ("One", "Two", "One"):
        sections.put(title, f"text of {title}")

    assert (tmp_path / "RESULTS.md").read_text() == "# Results\n\n## One\n\ntext of One\n\n## Two\n\ntext of Two\n"


def test_notes_written_by_hand_stay_in_a_section_that_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    results = tmp_path / "RESULTS.md"
    monkeypatch.setattr(sections, "RESULTS", results)
    results.write_text(f"# Results\n\n## One\n\nold\n\n{sections.NOTES}\nA note.\n\n### More\n\n## Two\n\ntext\n")

    for text in ("new", "newer"):
        sections.put("One", text)

    kept = f"{sections.NOTES}\nA note.\n\n### More\n"
    assert results.read_text() == f"# Results\n\n## One\n\nnewer\n\n{kept}\n## Two\n\ntext\n"


def test_tables_that_differ_in_a_sweep_are_named() -> None:
    two = shapes.SHAPES[:2]
    equal, different = run_of("x", 1.0), run_of("y", 2.0, order_id=9)

    report = sweeps.report({two[0].name: (equal, equal), two[1].name: (equal, different)}, two)

    assert f"**The tables differ for {two[1].name}.**" in report
    assert "| **2.00** | 1.00 |" in report


@pytest.mark.parametrize(
    ("name", "least", "most"), [("100 B", 95, 120), ("1 KB", 950, 1_050), ("10 KB", 9_900, 10_100)]
)
def test_values_have_the_size_that_their_topic_promises(name: str, least: int, most: int) -> None:
    shape = next(shape for shape in shapes.SHAPES if shape.name == name)

    assert all(least <= len(value) <= most for value in shapes.encoded(shape, 1)[:100])


def test_topics_have_the_columns_and_partitions_that_they_promise() -> None:
    by_name = {shape.name: shape for shape in shapes.SHAPES}

    assert [len(by_name[f"{n} columns"].fields) for n in (5, 20, 100)] == [5, 20, 100]
    assert [by_name[name].partitions for name in ("1 partition", "6 partitions", "50 partitions")] == [1, 6, 50]
    assert {by_name[codec].codec for codec in ("snappy", "lz4", "zstd")} == {"snappy", "lz4", "zstd"}


def test_shares_of_threads_and_libraries_are_parsed() -> None:
    printed = [
        "# Overhead|Command|Shared Object",
        " 73.53% |python |libarrow.so.2600",
        "  5.88% |C2 CompilerThre|libjvm.so",
        "",
    ]

    assert stacks.shares_of(printed) == [
        ("python", "libarrow.so.2600", 73.53),
        ("C2 CompilerThre", "libjvm.so", 5.88),
    ]


def test_samples_are_added_up_by_innermost_function() -> None:
    sampled = ["main (run.py:1);add (write.py:2) 3", "work (run.py:9);add (write.py:2) 2", "main (run.py:1) 5"]

    assert stacks.leaves_of(sampled) == {"add (write.py:2)": 50.0, "main (run.py:1)": 50.0}


def test_a_fallback_to_python_is_stated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subjects, "native_available", lambda: True)
    monkeypatch.setattr(subjects, "why_not_native", lambda: "it is too old")

    assert subjects.code_in_use() == "**fetch in Python** (it is too old), native decode"
