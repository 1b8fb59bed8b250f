"""Records that a table has counted as skipped: which of them show why by themselves."""

from __future__ import annotations

from collections.abc import Mapping

from frazil.model.dead_letter import Reason
from frazil.model.erasures import ERASED
from frazil.model.progress import TableState

SHOWN_AT_ANY_TIME = frozenset(
    map(
        str,
        (
            Reason.NULL_VALUE,
            Reason.NOT_FRAMED,
            Reason.BAD_COMPRESSION,
            Reason.TRUNCATED,
            Reason.TRAILING_BYTES,
            Reason.BAD_VARINT,
            Reason.BAD_BOOLEAN,
            Reason.BAD_INDEX,
            Reason.BAD_LENGTH,
            Reason.BAD_TAG,
            Reason.WRONG_MESSAGE,
            Reason.BAD_UTF8,
            Reason.BAD_JSON,
            Reason.DUPLICATE_KEY,
            Reason.WRONG_TYPE,
        ),
    )
)
"""Reasons that a record shows by itself, with the spec of its time: it is refused for them now as it was then."""


def unshown(ledger: TableState) -> int:
    """Return how many records were skipped in all partitions for reasons that they may not show any more."""
    reasons: Mapping[str, int] = ledger.skipped_by_reason
    unshown = sum(count for reason, count in reasons.items() if reason not in SHOWN_AT_ANY_TIME)
    return unshown + max(ledger.accounted.skipped - sum(reasons.values()), 0)


def unshown_refusals(ledger: TableState) -> int:
    """Return how many of these were bad records, which may be good ones by now, or good ones that had been erased."""
    may_be_good = {ERASED, *(str(reason) for reason in Reason)} - SHOWN_AT_ANY_TIME
    return sum(count for reason, count in ledger.skipped_by_reason.items() if reason in may_be_good)
