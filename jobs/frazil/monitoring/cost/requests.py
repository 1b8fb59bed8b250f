"""How many requests a batch makes to S3 and Glue. tests/services/test_requests_of_batches.py counts them."""

from __future__ import annotations

from dataclasses import dataclass

UPLOAD = 2
"""Requests of an upload in parts, apart from its parts: they begin and complete it."""

PART_BYTES = 10 << 20
"""The size of a part."""

COMMITS = 2
"""The commits of a batch to a table, and to its dead letters if there are any: to a branch, and to `main`."""

METADATA_OBJECTS = COMMITS + 2
"""A metadata file for each commit, a manifest and a manifest list."""

READS, READS_OF_DEAD_LETTERS = 7, 5
"""HEAD and GET: whether a metadata file exists, and the heads of manifest lists and manifests."""

GLUE_CALLS, GLUE_CALLS_OF_DEAD_LETTERS = 15, 8
GLUE_CALLS_WITHOUT_A_BATCH = 4
"""What a trigger asks that finds nothing new."""


@dataclass(frozen=True, slots=True)
class Requests:
    """Requests to S3 by price (writes are PUT, POST and LIST, reads are GET and HEAD), and to Glue."""

    writes: float = 0.0
    reads: float = 0.0
    glue: float = 0.0

    def __add__(self, other: Requests) -> Requests:
        return Requests(self.writes + other.writes, self.reads + other.reads, self.glue + other.glue)


def requests_of(
    *, batches: float, with_dead_letters: float, files: float, written_bytes: float, empty_triggers: float
) -> Requests:
    """Return the requests of batches that wrote so many data files, of which some have dead letters too."""
    uploads = files + METADATA_OBJECTS * (batches + with_dead_letters)
    parts = max(uploads, uploads - files + written_bytes / PART_BYTES)
    lists = COMMITS * (batches + with_dead_letters)
    return Requests(
        writes=UPLOAD * uploads + parts + lists,
        reads=READS * batches + READS_OF_DEAD_LETTERS * with_dead_letters,
        glue=GLUE_CALLS * batches
        + GLUE_CALLS_OF_DEAD_LETTERS * with_dead_letters
        + GLUE_CALLS_WITHOUT_A_BATCH * empty_triggers,
    )
