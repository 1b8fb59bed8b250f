"""The text of an announcement: plain text, as SNS sends it by e-mail."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime

from frazil.exports.editions import INCREMENTS, edition_of
from frazil.exports.manifest import Contents, Manifest
from frazil.model.moments import rfc3339
from frazil.model.spelling import plural

MOST_FILES = 100
"""How many files a message names: SNS takes 256 KB, and a link has up to 600 bytes. The manifest names all."""

MEANINGS: Mapping[Contents, str] = {
    "all rows": "all rows of the window",
    "late rows": "rows that came after the files before: add them to those",
    "all rows again": "all rows of the window again: use these files in the place of those before",
    "new rows": "the rows that were added since the files before",
}


@dataclass(frozen=True, slots=True)
class Mail:
    """`links_end_at` is when the links stop to open the files, None for a message without links."""

    subject: str
    text: str
    links_end_at: datetime | None


def mail_of(
    manifest: Manifest, address: str, links: Mapping[str, str] | None = None, links_end_at: datetime | None = None
) -> Mail:
    """Return the announcement of a finished set of files in the folder `address`. `links` are by the names of files."""
    subject = f"{_title(manifest)}: {plural(manifest.rows, 'row')}"
    lines = (subject, "", *_facts(manifest), "", *_files(manifest, address, links or {}), "", *_end(links_end_at))
    return Mail(subject[:100], "\n".join(lines).rstrip() + "\n", links_end_at)


def _title(manifest: Manifest) -> str:
    if manifest.label == INCREMENTS:
        return f"{manifest.export}, increment {manifest.number}"
    return f"{manifest.export} {manifest.label}" + (f", correction {manifest.number}" if manifest.number else "")


def _facts(manifest: Manifest) -> Iterator[str]:
    yield f"Contents: {MEANINGS[manifest.contents]}"
    period = manifest.period
    if period is not None:
        start, end = (each.isoformat() for each in (period.start, period.end))
        yield f"Window: {manifest.window_column} from {start} up to {end} ({manifest.time_zone})"
    yield f"Table: {manifest.table}, snapshot {manifest.snapshot_id}"
    guarded = sum(part.guarded for part in manifest.parts)
    if guarded:
        yield f"Cells with an apostrophe before what looks like a formula: {guarded:,}"
    through = manifest.complete_through
    if period is not None and manifest.positions is not None and (through is None or through < period.end):
        reached = "had not caught up" if through is None else f"was complete through {rfc3339(through)}"
        yield f"Rows may still come: the table {reached}. They would be announced as a correction."


def _files(manifest: Manifest, address: str, links: Mapping[str, str]) -> Iterator[str]:
    if not manifest.parts:
        yield f"There are no rows, and so no file, only a manifest in {address}"
    else:
        yield f"{plural(len(manifest.parts), 'file')} in {address}"
    for part in manifest.parts[:MOST_FILES]:
        yield f"- {part.name}: {plural(part.rows, 'row')}, {part.bytes:,} bytes"
        if part.name in links:
            yield links[part.name]
    if len(manifest.parts) > MOST_FILES:
        yield f"- and {plural(len(manifest.parts) - MOST_FILES, 'more file')}: see the manifest"
    name = edition_of(manifest).manifest
    yield f"- {name}: the manifest, with the checksum of each file"
    if name in links:
        yield links[name]


def _end(links_end_at: datetime | None) -> Iterator[str]:
    if links_end_at is None:
        yield "There are no links: the files can be read with access to the bucket."
        return
    yield f"The links open the files until {rfc3339(links_end_at)}, for everyone who has them."
