"""Format a receipt as text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime

from frazil.model.moments import rfc3339
from frazil.model.receipt import RangeReceipt, Receipt
from frazil.model.spelling import file_size, plural


def lines(receipt: Receipt) -> Iterator[str]:
    """Yield what was read, the outcome of the records, the snapshot, and the time of each step that took any."""
    yield _head(receipt)
    yield f"  {_replayed(receipt) or receipt.counts.short_formula()}"
    yield from _details(receipt)


def logged_lines(receipt: Receipt, *, at: datetime) -> Iterator[str]:
    """Yield the lines for a log: they begin with the time, and the formula has all its terms."""
    yield f"{rfc3339(at.replace(microsecond=0))} {_head(receipt)}"
    yield f"  {_replayed(receipt) or receipt.counts.formula()}"
    yield from _details(receipt)


def _head(receipt: Receipt) -> str:
    return f"{receipt.table} epoch {receipt.epoch}, snapshot {receipt.snapshot_id}, batch {receipt.batch_id}"


def _details(receipt: Receipt) -> Iterator[str]:
    if receipt.group is not None:
        yield f"  all tables of its group: {receipt.group.short_formula()}"
    if receipt.ranges:
        yield offsets_line(receipt)
    yield from _reasons("dead letters", receipt.dead_letters_by_reason)
    yield from _reasons("skipped", receipt.skipped_by_reason)
    yield f"  {file_size(receipt.payload_bytes)} read, {file_size(receipt.file_bytes)} in {_files(receipt.files)}"
    for change in receipt.schema_changes:
        yield f"  schema: {change}"
    if receipt.truncated_nanos:
        yield f"  {plural(receipt.truncated_nanos, 'timestamp')} lost digits below the microsecond"
    if receipt.undeclared_fields:
        yield f"  {plural(receipt.undeclared_fields, 'undeclared field')} kept in _extra"
    if receipt.foreign:
        yield f"  changes by others so far: {', '.join(receipt.foreign)}"
    through = receipt.complete_through
    at = "unknown until the first backfill ends" if through is None else rfc3339(through)
    yield f"  complete through {at}"
    taken = {step: f"{seconds:.2f}" for step, seconds in receipt.seconds.items()}
    yield f"  seconds {', '.join(f'{step} {text}' for step, text in taken.items() if text != '0.00')}"


def offsets_line(receipt: Receipt) -> str:
    return f"  offsets {', '.join(_range(each) for each in sorted(receipt.ranges, key=_place))}"


def _replayed(receipt: Receipt) -> str:
    """Return what a replay did; empty for a batch that read records."""
    if not receipt.replayed:
        return ""
    counts = receipt.counts
    outcomes = {"row": counts.rows, "delete": counts.deletes, "duplicate": counts.duplicates}
    became = ", ".join(plural(count, word) for word, count in outcomes.items() if count)
    return f"replayed {plural(receipt.replayed, 'dead letter')} as {became or plural(receipt.replayed, 'row')}"


def _range(each: RangeReceipt) -> str:
    gaps = f" ({each.gaps} without a record)" if each.gaps else ""
    return f"{each.topic}-{each.partition} [{each.start}, {each.end}){gaps}"


def _place(each: RangeReceipt) -> tuple[str, int]:
    return each.topic, each.partition


def _reasons(what: str, counts: Mapping[str, int]) -> Iterator[str]:
    if counts:
        yield f"  {what}: {', '.join(f'{reason} {count:,}' for reason, count in counts.items())}"


def _files(count: int) -> str:
    return plural(count, "file")
