"""Format the batches of a table as text: those that follow each other without gaps share a line."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from frazil.model.moments import rfc3339
from frazil.model.progress import Counts
from frazil.model.spelling import plural
from frazil.proof.chain import Chain, Link, OtherCommit, PartitionChain


def chain_lines(chain: Chain) -> Iterator[str]:
    """Yield the ranges of each partition, oldest first, then the commits that are no batches."""
    for partition in chain.partitions:
        yield from _partition(partition)
    if chain.others:
        yield "  commits that read no offsets:"
        yield from (f"    {_other(each)}" for each in chain.others)


def _partition(chain: PartitionChain) -> Iterator[str]:
    progress = chain.progress
    batches = plural(len(chain.links), "batch", "batches")
    yield f"  {chain.name} [{progress.origin}, {progress.next}): {batches}, {progress.counts.short_formula()}"
    if not chain.is_whole:
        expired = f"[{progress.origin}, {chain.begins})"
        yield f"    {expired} {plural(chain.before.read, 'record')} of batches whose snapshots have expired"
    for has_gaps, links in groupby(chain.links, key=lambda link: link.gaps > 0):
        if has_gaps:
            yield from (f"    {_run([link])}" for link in links)
        else:
            yield f"    {_run(list(links))}"


def _run(links: Sequence[Link]) -> str:
    """Return the line of batches that follow each other."""
    first, last = links[0].batch, links[-1].batch
    counts, gaps = sum((link.counts for link in links), Counts()), sum(link.gaps for link in links)
    place = f"[{links[0].start}, {links[-1].end})"
    if len(links) == 1:
        about = f"epoch {first.epoch}, batch {first.batch_id}, snapshot {first.snapshot_id}, {rfc3339(first.at)}"
    else:
        about = (
            f"epochs {first.epoch} to {last.epoch}, batches {first.batch_id} to {last.batch_id}, snapshots"
            f" {first.snapshot_id} to {last.snapshot_id}, {rfc3339(first.at)} to {rfc3339(last.at)}"
        )
    without = f"; {plural(gaps, 'offset')} without a committed record" if gaps else ""
    if links[0].causes is not None:
        without += f" ({links[0].causes})"
    return f"{place} {about}: {counts.short_formula()}{without}"


def _other(each: OtherCommit) -> str:
    figures = ((each.rows_added, "added"), (each.rows_removed, "removed"))
    rows = ", ".join(f"{count:,} {word}" for count, word in figures if count)
    changed = f"rows {rows}" if rows else "no rows"
    return f"{rfc3339(each.at)} {each.operation} {each.snapshot_id} by {each.by}: {changed}"
