"""`frazil forget --confirm` erases a value from both tables: `verify` stays clean, and no file has a trace."""

from __future__ import annotations

import base64
import json
import re
from dataclasses import replace
from datetime import UTC, datetime
from itertools import count
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from frazil.adapters.iceberg.sought_value import sought_in
from frazil.cli.app import run
from frazil.forget.perform import WHY_PAUSED, Erased, Erasure
from frazil.maintain.figures import throughput_of
from frazil.materialize.foreign import count_foreign
from frazil.materialize.pause.by_operator import pause
from frazil.materialize.pause.history import operations
from frazil.materialize.pause.pausing import pause_of
from frazil.materialize.state import standing
from frazil.model.errors import ErasureError
from frazil.model.expired_letters import expired_letters
from frazil.model.join_history import tag_of
from frazil.model.spec import TableSpec
from frazil.monitoring.history import read_history
from frazil.proof.verification import FindingKind
from frazil.verify.ranges import BY_FORGET, read_chain
from frazil.verify.table import verify_table
from tests.position_deletes import delete_rows
from tests.sampling import sampled
from tests.table.small_lake import Read, SmallLake, spec_of, without
from tests.table.test_status import Broker, status_of

Captured = pytest.CaptureFixture[str]
PAGE = (Path(__file__).parents[2] / "docs" / "erasure.md").read_text(encoding="utf-8")
NOW = datetime(2026, 2, 1, tzinfo=UTC)
STEPS = ("pause", "rewrite", "letters", "rows", "hash", "expire", "delete")
_NUMBERS = count()


class DiedError(Exception):
    """The process ends here."""


def erasure(lake: SmallLake, text: str, column: str = "kafka_key", spec: TableSpec | None = None) -> Erasure:
    sought = sought_in(lake.view, column, text)
    return Erasure(lake.lake, spec or lake.spec, sought, "tester", lambda: NOW, lambda: f"e{next(_NUMBERS)}")


def erase(lake: SmallLake, text: str, column: str = "kafka_key") -> Erased:
    done = erasure(lake, text, column).perform()
    continued(lake)
    assert done.left and all(each.found == () for each in done.left)
    return done


def continued(lake: SmallLake) -> None:
    """Let the next batch of the small table follow the state that the table has now."""
    lake.state = standing(lake.view, pipeline=lake.spec.pipeline).state


def findings(lake: SmallLake) -> list[FindingKind]:
    return [each.kind for each in verify_table(lake.lake, lake.spec).findings]


def keys(lake: SmallLake) -> list[str]:
    return sorted(lake.table.scan().to_arrow()["kafka_key"].to_pylist(), key=int)


def forgotten(lake: SmallLake) -> dict[int, int]:
    (source,) = standing(lake.view, pipeline=lake.spec.pipeline).state.sources
    return {number: each.forgotten for number, each in source.partitions.items() if each.forgotten}


def test_an_erasure_is_no_batch_in_the_past_of_a_table(lake: SmallLake) -> None:
    """It writes the other rows of a file anew, long after they came."""
    erase(lake, "99")

    assert read_history(lake.lake, lake.spec).batches == ()
    throughput = throughput_of(lake.view, now=datetime.now(UTC))
    assert throughput is not None and throughput.rows == 0
    assert status_of(lake, Broker({0: 100})).last_batch is None


def test_a_row_is_erased_and_all_others_stay(lake: SmallLake) -> None:
    before = keys(lake)

    done = erase(lake, "99")

    assert (done.rows, done.dead_letters) == (1, 0)
    assert keys(lake) == [key for key in before if key != "99"]
    assert (findings(lake), forgotten(lake)) == ([], {0: 1})
    assert lake.view.tags["frazil_checkpoint"] == lake.view.head
    assert any("1 row was taken out" in note for note in verify_table(lake.lake, lake.spec).notes)


def test_a_key_in_two_partitions_is_erased_in_both_and_batches_go_on(lake: SmallLake) -> None:
    assert erase(lake, "7").rows == 2

    lake.batch(Read("orders", 0, 100, 110))

    assert (findings(lake), forgotten(lake)) == ([], {0: 1, 1: 1})
    assert "109" in keys(lake)


def test_a_loss_after_an_erasure_is_still_a_loss(lake: SmallLake) -> None:
    erase(lake, "99")

    lake.rewrite_in_place(without("kafka_offset", 61))

    assert FindingKind.LOST_ROWS in findings(lake)


def test_what_is_erased_is_another_commit_in_the_chain_of_batches(lake: SmallLake) -> None:
    erase(lake, "99")

    chain = read_chain(standing(lake.view, pipeline=lake.spec.pipeline))

    assert [each.by for each in chain.others] == [BY_FORGET]


def test_a_dead_letter_is_erased_and_counted(lake: SmallLake) -> None:
    done = erase(lake, "21")

    assert (done.rows, done.dead_letters) == (1, 1)  # the row is in partition 1
    assert lake.dead_view.current.scan().to_arrow()["key"].to_pylist() == [b"10"]
    assert expired_letters(lake.dead_view, lake.dead_view.head, ()).total == 1
    assert findings(lake) == []


def test_a_dead_letter_with_the_text_in_a_longer_word_stays_unless_it_is_asked_for(lake: SmallLake) -> None:
    done = erasure(lake, "2").perform()
    assert (done.rows, done.dead_letters, done.is_complete) == (2, 0, False)

    asked = erasure(lake, "2")
    asked.parts_of_words = True
    again = asked.perform()

    assert (again.rows, again.dead_letters, again.is_complete) == (0, 1, True)
    assert findings(lake) == []


def test_a_row_that_a_position_delete_hides_is_erased_with_its_file(lake: SmallLake, tmp_path: Path) -> None:
    delete_rows(lake.table, tmp_path, one_in=3)
    hidden = sorted({str(n) for n in range(60, 100)} - set(keys(lake)))
    foreign = count_foreign(standing(lake.view, pipeline=lake.spec.pipeline))
    lake.state = replace(lake.state, foreign=foreign)  # as each batch does

    done = erase(lake, hidden[0])

    assert (done.rows, findings(lake), forgotten(lake)) == (0, [], {})
    delete_rows(lake.table, tmp_path, one_in=5)
    assert findings(lake) == []


def test_a_row_that_another_engine_has_deleted_goes_with_its_snapshots(lake: SmallLake) -> None:
    lake.table.delete("kafka_key = '99'")

    done = erase(lake, "99")

    assert done.rows == 0 < done.snapshots
    assert (findings(lake), forgotten(lake)) == ([], {})


def test_a_row_that_another_engine_has_inserted_counts_as_removed_by_others(lake: SmallLake) -> None:
    schema = lake.table.schema().as_arrow()
    lake.table.append(pa.Table.from_pylist([{"symbol": "theirs"}, {"symbol": "more"}], schema=schema))

    assert erase(lake, "theirs", "symbol").rows == 1

    assert (findings(lake), forgotten(lake)) == ([], {})


def test_a_file_outside_the_folder_is_taken_out_of_the_table_and_named(lake: SmallLake, tmp_path: Path) -> None:
    path = tmp_path / "imported.parquet"
    pq.write_table(pa.table({"symbol": ["imported", "other"]}), path)
    lake.table.add_files([str(path)], check_duplicate_files=False)

    done = erasure(lake, "imported", "symbol").perform()

    assert (done.rows, done.elsewhere, done.is_complete) == (1, (str(path),), False)
    assert findings(lake) == []
    path.unlink()
    assert erase(lake, "imported", "symbol").is_complete


def test_a_table_of_two_topics_counts_each_topic_by_itself(tmp_path: Path) -> None:
    lake = SmallLake(tmp_path / "warehouse", spec_of("orders", "returns"))
    lake.batch(Read("orders", 0, 0, 9), Read("returns", 0, 0, 9, dead=(3,)))

    done = erase(lake, "3")

    sources = standing(lake.view, pipeline=lake.spec.pipeline).state.sources
    assert (done.rows, done.dead_letters) == (1, 1)
    assert [source.partitions[0].forgotten for source in sources] == [1, 0]
    assert findings(lake) == []


def test_a_value_that_the_table_is_partitioned_by_leaves_no_path_and_no_entry(tmp_path: Path) -> None:
    lake = SmallLake(tmp_path / "warehouse", spec_of("orders", partition_by=("symbol",)))
    lake.batch(Read("orders", 0, 0, 14))
    lake.batch(Read("orders", 0, 14, 21))

    done = erase(lake, "S6", "symbol")

    assert done.rows == 3
    assert (findings(lake), forgotten(lake)) == ([], {0: 3})


def test_a_long_key_is_erased_although_others_begin_as_it_does(lake: SmallLake) -> None:
    schema = lake.table.schema().as_arrow()
    long = "customer-0000000000017"
    others = [long[:-1] + "8", long[:-2] + "09"]
    lake.table.append(pa.Table.from_pylist([{"symbol": each} for each in (long, *others)], schema=schema))

    assert erase(lake, long, "symbol").rows == 1


def test_a_value_that_is_not_there_changes_no_row(lake: SmallLake) -> None:
    head = lake.view.head

    done = erase(lake, "12345")

    assert (done.rows, done.dead_letters) == (0, 0)
    assert lake.view.head == head


CRASHES = [*((step, 1) for step in STEPS), ("expire", 2), ("delete", 2)]
"""Before each step, the last ones for the rows and for the dead letters."""


@pytest.mark.parametrize(
    ("step", "times"), sampled(CRASHES, keep=[("rows", 1), ("delete", 1), ("delete", 2)].__contains__)
)
def test_an_erasure_that_died_is_continued(lake: SmallLake, step: str, times: int) -> None:
    seen = count(1)

    def die(name: str) -> None:
        if name == step and next(seen) == times:
            raise DiedError

    first = erasure(lake, "21")
    first.step = die
    with pytest.raises(DiedError):
        first.perform()
    assert findings(lake) == []
    pause(lake.lake, lake.spec, by="tester", why=WHY_PAUSED, at=NOW, erasure="killed")

    erase(lake, "21")

    assert (findings(lake), forgotten(lake)) == ([], {1: 1})
    assert lake.dead_view.current.scan().to_arrow()["key"].to_pylist() == [b"10"]
    assert pause_of(lake.view.properties) is None


@pytest.mark.parametrize("step", ["letters", "rows"])
def test_rows_are_looked_for_again_if_others_commit_meanwhile(lake: SmallLake, step: str) -> None:
    seen = count(1)

    def commit(name: str) -> None:
        if name == step and next(seen) == 1:
            schema = lake.table.schema().as_arrow()
            lake.table.append(pa.Table.from_pylist([{"symbol": "theirs", "kafka_key": "21"}], schema=schema))

    disturbed = erasure(lake, "21")
    disturbed.step = commit
    done = disturbed.perform()

    assert (done.rows, done.dead_letters, done.is_complete) == (2, 1, True)
    assert (findings(lake), forgotten(lake)) == ([], {1: 1})


def test_a_batch_whose_dead_letters_are_not_visible_yet_is_completed_first(lake: SmallLake) -> None:
    lake.batch(Read("orders", 0, 100, 130, dead=(121, 122)), show=False)

    done = erase(lake, "121")

    assert done.dead_letters == 1
    assert findings(lake) == []


def test_a_tag_of_others_keeps_all_as_it_is_unless_it_is_to_be_dropped(lake: SmallLake) -> None:
    head = lake.view.head
    assert head is not None
    lake.table.manage_snapshots().create_tag(head, "audit").commit()

    with pytest.raises(ErasureError, match=r"audit of lake\.orders"):
        erasure(lake, "99").perform()
    assert (lake.view.head, pause_of(lake.view.properties)) == (head, None)

    dropping = erasure(lake, "99")
    dropping.drop_pins = True
    done = dropping.perform()
    assert (done.pins, done.is_complete) == (("audit",), True)


def test_a_tag_that_is_set_meanwhile_stays_and_is_listed(lake: SmallLake) -> None:
    head = lake.view.head
    assert head is not None
    tagged = erasure(lake, "99")
    tagged.step = lambda name: (
        lake.table.manage_snapshots().create_tag(head, "audit").commit() if name == "rows" else None
    )

    done = tagged.perform()

    assert (done.is_complete, done.pins, lake.view.tags["audit"]) == (False, (), head)
    assert all("tag audit" in each.kept_by for each in done.left[0].found)
    assert findings(lake) == []


def test_the_table_says_who_erased_how_much_and_not_which_value(lake: SmallLake) -> None:
    erase(lake, "99")

    (done,) = (each for each in operations(lake.view.properties) if each.what == "forget")
    assert (done.by, done.why) == ("tester", "1 row and 0 dead letters by a value of kafka_key")


def test_a_pause_of_an_operator_stays(lake: SmallLake) -> None:
    pause(lake.lake, lake.spec, by="someone", why="a migration", at=NOW)

    erase(lake, "99")

    kept = pause_of(lake.view.properties)
    assert kept is not None
    assert kept.why == "a migration"


def test_a_table_that_a_transformation_follows_is_refused(lake: SmallLake) -> None:
    head = lake.view.head
    assert head is not None
    lake.table.manage_snapshots().create_tag(head, "frazil_transform_lake.daily").commit()

    with pytest.raises(ErasureError, match=r"transformations follow it.*daily"):
        erasure(lake, "99").perform()


def test_a_table_that_a_transformation_joins_is_refused(lake: SmallLake) -> None:
    head = lake.view.head
    assert head is not None
    lake.table.manage_snapshots().create_tag(head, tag_of("daily", head)).commit()

    with pytest.raises(ErasureError, match="transformations join it"):
        erasure(lake, "99").perform()


def test_the_command_erases_and_proves_it(config: str, lake: SmallLake, capsys: Captured) -> None:
    assert run(["forget", "orders", "--key", "99", "--confirm", "--config", config]) == 0
    said = capsys.readouterr().out
    assert "lake.orders: 1 row and 0 dead letters erased" in said
    assert "lake.orders: no trace of kafka_key = 99" in said
    assert "a rebuild brings back what Kafka still has: the table keeps no hash of the value, as no hash_key" in said
    assert "nothing was changed" not in said

    assert run(["forget", "orders", "--key", "99", "--confirm", "--json", "--config", config]) == 0
    assert json.loads(capsys.readouterr().out)["is_complete"] is True
    assert run(["verify", "orders", "--config", config]) == 0


def test_the_page_shows_what_the_command_prints(config: str, lake: SmallLake, capsys: Captured) -> None:
    keys, command, shown = re.findall(r"```\w*\n(.*?)```", PAGE.partition("## Erase it")[2], re.DOTALL)[:3]
    _, *arguments = command.split()
    path = Path(config)
    path.write_text(path.read_text(encoding="utf-8") + keys, encoding="utf-8")
    (path.parent / "hash.key").write_text(base64.b64encode(bytes(32)).decode())

    assert run([*arguments, "--config", config]) == 0

    assert capsys.readouterr().out == shown


def test_the_command_fails_if_something_is_left(config: str, lake: SmallLake, capsys: Captured) -> None:
    assert run(["forget", "orders", "--key", "2", "--confirm", "--config", config]) == 1

    said = capsys.readouterr().err
    assert "something is left of kafka_key = 2" in said
    assert "--all-letters" in said
