"""Dead letters without a key whose records compaction has removed: a rebuild keeps them.

Of a key, Kafka has a newer record. A record without one is followed by none, so its dead letter is all that is left.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa
from pyroaring import BitMap64

from frazil.formats.arrow import project
from frazil.materialize.ingest.distribute import write_target
from frazil.materialize.ingest.write import DataFileWriter
from frazil.materialize.rebuild.compaction import ComparedPartition, partitions_that_lack_records
from frazil.materialize.state import Standing
from frazil.model.dead_letter import Reason
from frazil.model.ingested import WrittenFile
from frazil.model.progress import Counts, PartitionProgress, SourceProgress
from frazil.model.snapshot import TableView
from frazil.model.spec import TableSpec
from frazil.ports import Lake
from frazil.proof.tally import bitmap_of


@dataclass(frozen=True, slots=True)
class KeptLetters:
    """Files of dead letters that are in no snapshot yet, and how many they have, by topic and partition."""

    files: Sequence[WrittenFile] = ()
    counts: Mapping[tuple[str, int], int] = field(default_factory=dict)

    def counted_in(self, built: Standing) -> Standing:
        """Return what was built with these dead letters, which were read when the table was."""
        sources = tuple(self._with_letters(each) for each in built.state.sources)
        return replace(built, state=replace(built.state, sources=sources))

    def _with_letters(self, source: SourceProgress) -> SourceProgress:
        more = {n: self.counts.get((source.topic, n), 0) for n in source.partitions}
        return replace(source, partitions={n: _with_more(p, more[n]) for n, p in source.partitions.items()})


def _with_more(at: PartitionProgress, letters: int) -> PartitionProgress:
    return replace(at, counts=at.counts + Counts(read=letters, dead_letters=letters))


def keep_letters(
    lake: Lake, building: Lake, spec: TableSpec, here: Standing, built: Standing, *, writer: str
) -> KeptLetters:
    """Write the dead letters to keep to new files. Raises CatalogError.

    `lake` has the dead letters that readers see, and `building` those of what was built. With `on_bad_record: skip`, a
    table has none. A group needs all records, so none of its letters lack theirs.
    """
    lacking = [*partitions_that_lack_records(here.state, built)]
    letters = lake.load(spec.dead_letters_identifier) if lacking and spec.on_bad_record == "dead_letter" else None
    if letters is None:
        return KeptLetters()
    files = DataFileWriter(
        write_target(letters),
        storage=lake.storage,
        prefix=f"{writer}-kept",
        target_bytes=spec.maintain.target_file_bytes,
    )
    counts = dict[tuple[str, int], int]()
    for at in lacking:
        kept = _offsets_to_keep(lake, letters, building.load(spec.dead_letters_identifier), spec, here, at)
        for batch in _without_key(lake, letters, spec, here, at) if kept else ():
            stays = pa.array([offset in kept for offset in batch.column("offset").to_pylist()], pa.bool_())
            files.add(project(batch.filter(stays), files.arrow_schema))
        counts[at.topic, at.number] = len(kept)
    return KeptLetters(files.close(), counts)


def _offsets_to_keep(
    lake: Lake, letters: TableView, built: TableView | None, spec: TableSpec, here: Standing, at: ComparedPartition
) -> BitMap64:
    """Return the offsets of dead letters without a record.

    If they are more than the records that are gone, the changed spec skips such records, and Kafka may have them.
    """
    found = BitMap64()
    for batch in _without_key(lake, letters, spec, here, at):
        offsets = batch.column("offset").to_numpy()
        found |= bitmap_of(offsets[(offsets >= at.built.origin) & (offsets < at.built.next)])
    place = {"table_uuid": here.view.uuid, "topic": at.topic, "partition": at.number}
    for batch in () if built is None else lake.read(built, columns=["offset"], equal=place):
        found -= bitmap_of(batch.column("offset").to_numpy())
    return found if len(found) <= at.lost else BitMap64()


def _without_key(
    lake: Lake, letters: TableView, spec: TableSpec, here: Standing, at: ComparedPartition
) -> Iterator[pa.RecordBatch]:
    """Yield the letters without a key, apart from those that the spec skips now: their records are counted as that."""
    generation = next(source.generation for source in here.state.sources if source.topic == at.topic)
    place = {"topic": at.topic, "generation": generation, "partition": at.number}
    equal = {"table_uuid": here.view.uuid, **place, "reason": Reason.NULL_IDENTITY.value}
    for batch in lake.read(letters, columns=("*",), equal=equal):
        found = batch.filter(batch.column("key").is_null())
        yield found.filter(found.column("value").is_valid()) if spec.on_tombstone == "skip" else found
