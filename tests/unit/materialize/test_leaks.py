"""No masked value is in any file below the warehouse, nor in any log line, of whole runs with bad records."""

from __future__ import annotations

import base64
import json
import logging
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import fastavro
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from policed_tables import DROP, HASH, REDACT, masked, truncate
from pyiceberg.table.puffin import PuffinFile
from test_policies import ANNA, PERSON
from values_of_tables import NOW, spec
from whole_batches import World, framed

from frazil.adapters.iceberg.lake import IcebergLake
from frazil.adapters.iceberg.puffin import write_blob
from frazil.cli.clients import delta_logs_of
from frazil.cli.dead_letters import _lines as letter_lines
from frazil.cli.logs import EventFormatter
from frazil.cli.peek import _to_json as peek_json
from frazil.cli.peek import lines as peek_lines
from frazil.cli.receipt_lines import lines as receipt_lines
from frazil.dead_letters import list_dead_letters
from frazil.materialize.ingest.payloads import Part
from frazil.materialize.outcome import Published
from frazil.materialize.preview.explain import explain, lines
from frazil.materialize.replay.answer import answer_to, ask
from frazil.materialize.replay.request import ReplayRequest, replayed_text, stayed_text
from frazil.model.dead_letter import Reason, Reject
from frazil.model.errors import BadRecordLimitError, FrazilError
from frazil.model.plan import OffsetRange
from frazil.model.settings import CatalogSettings
from frazil.model.spec import BadRecordLimit, MetadataColumns, TableSpec
from frazil.monitoring.remarks import remarks
from frazil.peek import peek
from frazil.records import Records
from frazil.status import table_statuses
from frazil.verify.against_kafka import KafkaSide
from frazil.verify.table import verify_table

MARK = "LEAKED"
POLICIES = {
    "email": HASH,
    "ssn": DROP,
    "phones[]": truncate(4),
    "address": REDACT,
    "notes": DROP,
    "kafka_key": HASH,
}
SECRETS: dict[str, Any] = {
    **ANNA,
    "email": f"{MARK}-email@example.com",
    "ssn": f"{MARK}-ssn",
    "phones": [f"+351{MARK}-phone"],
    "address": {"street": f"{MARK}-street", "city": f"{MARK}-city"},
    "notes": {f"{MARK}-name": f"{MARK}-note"},
}
GOOD = framed(1, PERSON, SECRETS)


class MarkedWorld(World):
    """A topic whose records have the marked value in their keys and headers as well."""

    key = f"{MARK}-key".encode()

    def _chunks(self, wanted: OffsetRange) -> Iterator[Records]:
        for chunk in super()._chunks(wanted):
            headers = [[("who", f"{MARK}-header".encode())]] * len(chunk)
            offsets, values = chunk.offsets.to_pylist(), chunk.values.to_pylist()
            yield Records.of(offsets, [1_000] * len(chunk), [self.key] * len(chunk), values, headers,
                             wanted.end, 0)  # fmt: skip


@dataclass
class Run:
    world: MarkedWorld
    warehouse: Path
    said: list[str]

    def leaks(self) -> set[str]:
        """The kinds of files, and "said" for logs and messages, in which the mark is."""
        found = {kind for path in sorted(self.warehouse.rglob("*")) for kind in _leaks_of(path)}
        return found | ({"said"} if MARK in "\n".join(self.said) else set())


def _leaks_of(path: Path) -> Iterator[str]:
    if not path.is_file():
        return
    content, kind = path.read_bytes(), path.suffix
    texts = [content.decode("latin-1"), str(path)]
    if kind == ".parquet":
        parquet = pq.ParquetFile(path)
        texts += [str(parquet.read().to_pylist()), str(parquet.metadata.to_dict()), *_dictionaries(path)]
        kind += " of dead letters" if "__dead_letters" in str(path) else " of rows"
    if kind == ".avro":
        with path.open("rb") as file:
            reader = cast(Any, fastavro.reader(file))
            texts += [str(list(reader)), *map(_opened, reader.metadata.values())]
    if kind == ".puffin":
        puffin = PuffinFile(content)
        texts += [puffin.get_blob_payload(blob).decode("latin-1") for blob in puffin.footer.blobs]
    if any(MARK in text for text in texts):
        yield kind


def _dictionaries(path: Path) -> Iterator[str]:
    """The dictionary pages of a file: they could have values that no row has."""
    schema = pq.ParquetFile(path).schema
    names = [schema.column(n).path for n in range(len(schema)) if schema.column(n).physical_type == "BYTE_ARRAY"]
    found = pq.ParquetFile(path, read_dictionary=names).read()
    for column in found.columns:
        for chunk in column.chunks:
            yield from _dictionaries_in(chunk)


def _dictionaries_in(array: pa.Array) -> Iterator[str]:
    if isinstance(array, pa.DictionaryArray):
        yield str(array.dictionary.to_pylist())
    inside: list[pa.Array] = []
    if isinstance(array, pa.StructArray):
        inside = array.flatten()
    elif isinstance(array, pa.MapArray):
        inside = [array.keys, array.items]
    elif isinstance(array, pa.ListArray | pa.LargeListArray):
        inside = [array.values]
    for each in inside:
        yield from _dictionaries_in(each)


def _opened(held: str) -> str:
    """The text in the header of a manifest list; Frazil's state is compressed."""
    try:
        return zlib.decompress(base64.b64decode(held)).decode()
    except (ValueError, zlib.error):
        return held


def bad_records() -> list[bytes | None]:
    """Records that cannot be rows, each with the mark in its bytes, and for some in what is wrong with them."""
    return [GOOD[:-3], f"{MARK} no frame".encode(), b"\0\0\0\0\x63" + MARK.encode(), GOOD + MARK.encode(), None]


@pytest.fixture
def empty_run(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> Run:
    """A topic without records, and a registry without schemas."""
    caplog.set_level(logging.DEBUG)
    warehouse = tmp_path / "warehouse"
    world = MarkedWorld(IcebergLake(CatalogSettings("jdbc", str(warehouse))))
    return Run(world, warehouse, [])


@pytest.fixture
def run(empty_run: Run) -> Run:
    empty_run.world.registry.register("orders-value", PERSON)
    return empty_run


def carried_out(
    run: Run, table: TableSpec, caplog: pytest.LogCaptureFixture, good: bytes = GOOD, bad: Sequence[bytes | None] = ()
) -> None:
    """An attempt that dies before its publish, batches with bad records, a pause, and what the commands print."""
    world, bad = run.world, cast("list[bytes]", bad or bad_records())
    world.values = [good] * 3
    dying = world.table(table)
    dying.clients = replace(dying.clients, observe=_dies_at("stage"))
    with pytest.raises(KeyboardInterrupt):
        dying.batch()
    world.values += [*bad, good]
    living = world.table(table)
    living.clients = replace(living.clients, delta_logs=delta_logs_of(world.lake))
    assert isinstance(living.batch(), Published)
    world.values += bad
    for stopping in (
        replace(table, on_bad_record="stop"),
        replace(table, bad_record_limit=BadRecordLimit(share=0.0, at_least=1)),
    ):
        with pytest.raises(BadRecordLimitError) as stopped:
            world.table(stopping).batch()
        run.said += [str(stopped.value), stopped.value.hint]
    run.said += lines(explain(world.table(table)))
    verification = verify_table(world.lake, table, kafka=KafkaSide(world.topics, cast(Any, world), world.registry))
    assert verification.clean
    run.said += [
        str(verification),
        str(world.check(table)),
        *_shown(world, table),
        *_replayed(world, table, 4 + len(bad)),
    ]
    run.said += [f"{each.getMessage()} {each.__dict__}" for each in caplog.records]
    run.said += map(EventFormatter().format, caplog.records)


def _shown(world: World, table: TableSpec) -> Iterator[str]:
    """What `peek`, `status` and `dead-letters list` print, as text and as JSON."""
    facts = world.topics.describe("orders")
    assert facts is not None
    for peeked in peek(cast(Any, world), world.registry, facts, 9, spec=table):
        yield from (*peek_lines(peeked, width=500), json.dumps(peek_json(peeked)))
    statuses = list(table_statuses(world.lake, world.topics, [table], delta_logs=delta_logs_of(world.lake), now=NOW))
    yield from (str(statuses), *remarks(statuses), json.dumps([each.to_json() for each in statuses]))
    for pending in (False, True):
        letters = list_dead_letters(world.lake, table, limit=9, pending=pending)
        assert letters.total
        yield from (str(letters), *letter_lines(letters))


def _replayed(world: World, table: TableSpec, first: int) -> Iterator[str]:
    """What a replay says of the letters that stay. The `first` records are in the table."""
    request = ReplayRequest("r1", by="tester", at="2026-03-01T12:00:00Z")
    ask(world.lake, table.identifier, request)
    world.lake.set_properties(table.identifier, put={}, remove=["frazil.paused"])
    world.values = world.values[:first]
    said: list[str] = []
    driver = world.table(table)
    driver.clients = replace(
        driver.clients,
        delta_logs=delta_logs_of(world.lake),
        on_receipt=lambda receipt: said.extend(receipt_lines(receipt)),
    )
    driver.batch()
    result = answer_to(world.lake, table.identifier, request)
    assert result is not None
    assert result.error is None
    assert result.stayed
    yield from (str(result), replayed_text(result), stayed_text(result), *said)


def _dies_at(step: str) -> Any:
    def observe(when: str, now: str) -> None:
        if (when, now) == ("before", step):
            raise KeyboardInterrupt

    return observe


def test_no_file_and_no_message_of_a_run_has_a_masked_value(run: Run, caplog: pytest.LogCaptureFixture) -> None:
    kept = MetadataColumns(keep=("partition", "offset", "timestamp", "key", "schema_id"))
    carried_out(run, masked(POLICIES, metadata=kept, formats=("iceberg", "delta")), caplog)

    assert run.leaks() == set()
    orphans = len(list(run.warehouse.rglob("*.parquet"))) - len(_live(run))
    assert orphans > 0, "the killed attempt left files, which were searched too"


def _live(run: Run) -> set[str]:
    tables = [run.world.lake.catalog.load_table(name) for name in ("lake.orders", "lake.orders__dead_letters")]
    return {task.file.file_path for table in tables for task in table.scan().plan_files()}


def test_without_policies_the_search_finds_the_values_everywhere(run: Run, caplog: pytest.LogCaptureFixture) -> None:
    carried_out(run, spec(formats=("iceberg", "delta")), caplog)

    assert run.leaks() >= {".parquet of rows", ".parquet of dead letters", ".avro", ".json", "said"}


def test_the_files_of_remembered_deletes_have_no_masked_value(run: Run, caplog: pytest.LogCaptureFixture) -> None:
    """Only tables with keys and an order have such files. The rows and the deletes have the marked key."""
    kept = MetadataColumns(keep=("partition", "offset", "timestamp", "key", "schema_id"))
    table = masked(POLICIES, metadata=kept, write="upsert", on_tombstone="delete", order_by="kafka_timestamp")
    for value in (GOOD, None, GOOD):
        run.world.values.append(cast(bytes, value))
        assert isinstance(run.world.table(table).batch(), Published)
    run.said += map(EventFormatter().format, caplog.records)

    assert run.leaks() == set()
    assert list(run.warehouse.rglob("*.puffin"))


def test_the_search_opens_the_files_of_remembered_deletes(run: Run) -> None:
    run.world.values = [GOOD]
    run.world.table(masked(POLICIES)).batch()
    loaded = run.world.lake.catalog.load_table("lake.orders")

    written = write_blob(loaded.io, loaded.metadata, f"{[*range(999)]} {MARK}".encode())

    assert MARK.encode() not in Path(written.path.removeprefix("file://")).read_bytes()
    assert run.leaks() == {".puffin"}


@pytest.mark.parametrize(
    "failing", ["frazil.materialize.ingest.write.DataFileWriter.add", "frazil.materialize.replay.letters._records"]
)
def test_a_replay_that_fails_quotes_no_error_of_a_library(
    run: Run, failing: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*given: object, **more: object) -> object:
        raise ValueError(f"cannot place {MARK}")

    table = masked(POLICIES, on_tombstone="dead_letter", bad_record_limit=BadRecordLimit.off())
    world, request = run.world, ReplayRequest("r1", by="tester", at="2026-03-01T12:00:00Z")
    world.values = [GOOD, cast(bytes, None), b"bad"]
    assert isinstance(world.table(table).batch(), Published)
    ask(world.lake, table.identifier, request)
    monkeypatch.setattr(failing, broken)

    world.table(replace(table, on_tombstone="row")).batch()

    result = answer_to(world.lake, table.identifier, request)
    assert result is not None
    assert "ValueError" in str(result.error)
    run.said += [str(result), caplog.text, *map(EventFormatter().format, caplog.records)]
    assert run.leaks() == set()


def test_errors_of_libraries_are_not_quoted(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*given: object, **more: object) -> object:
        raise ValueError(f"cannot place {MARK}")

    run.world.values = [GOOD]
    table = masked({"email": HASH})
    monkeypatch.setattr("frazil.materialize.ingest.write.DataFileWriter.add", broken)

    with pytest.raises(FrazilError) as failed:
        run.world.table(table).batch()

    assert MARK not in json.dumps([str(failed.value), failed.value.hint])
    assert failed.value.__suppress_context__


def test_an_error_does_not_say_what_was_wrong_with_a_value(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Details may quote values: this decoder's does."""
    quoting = Reject(0, Reason.BAD_FORMAT, f"{MARK} is no date", "email")
    monkeypatch.setattr(
        "frazil.materialize.ingest.table_rows.decode_framed", lambda *given, **more: _refusing(quoting, more)
    )
    run.world.values = [GOOD]

    for table, quotes in ((masked({"email": HASH}), False), (spec(table="plain"), True)):
        with pytest.raises(BadRecordLimitError) as stopped:
            run.world.table(replace(table, on_bad_record="stop")).batch()
        assert (MARK in str(stopped.value)) is quotes


def _refusing(reject: Reject, asked: Any) -> Part:
    arrays = [pa.nulls(0, each.type) for each in asked["target"]]
    return Part(arrays, np.empty(0, np.int64), (reject,))
