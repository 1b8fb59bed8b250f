"""Isolate the records that fail to decode: each becomes a dead letter, and all others become rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TypeVar

import numpy as np
import pyarrow as pa

from frazil.materialize.ingest.payloads import CrowdedError
from frazil.model.dead_letter import Reason, Reject
from frazil.model.errors import DefectError, FrazilError
from frazil.records import Records

MOST_DEFECTS = 20
"""Of one chunk: more of them say that it is not the records."""

Refused = Mapping[int, Reject]
"""By index in a chunk: records that must not be decoded, and why."""

Result = TypeVar("Result")
Decode = Callable[[Records, Refused], Result]


def isolating(decode: Decode[Result], records: Records, *, where: str, quotes_values: bool = True) -> Result:
    """Decode a chunk without the records on which `decode` fails each time it is tried.

    Raises DefectError with the offsets where the failure is not that of single records, and CrowdedError where the
    chunk has to be decoded in several parts. The texts of other libraries' errors may quote values: without
    `quotes_values`, only their classes are named.
    """
    refused: dict[int, Reject] = {}
    if not len(records):
        return decode(records, refused)
    while True:
        problem = _failure(decode, records, refused)
        if not isinstance(problem, BaseException):
            return problem
        culprit = _first_failing(decode, records, refused)
        if culprit is None or len(refused) == MOST_DEFECTS:
            if not quotes_values:
                raise defect(where, records, problem, quotes_values=False) from None
            raise defect(where, records, problem) from problem
        refused[culprit] = Reject(culprit, Reason.DEFECT, f"{type(problem).__name__}: {problem}")


def defect(where: str, records: Records, problem: BaseException, *, quotes_values: bool = True) -> DefectError:
    """Return the error for these records, of which there is at least one."""
    first, last = records.first_offset, records.last_offset
    span = f"offset {first}" if first == last else f"offsets {first} to {last}"
    return DefectError(
        f"{where}, {span}: {type(problem).__name__}{f': {problem}' if quotes_values else ''}",
        hint="this is a defect in Frazil: report it with these offsets; nothing was published, no record is lost",
    )


def _failure(decode: Decode[Result], records: Records, refused: Refused) -> Result | BaseException:
    """Return the decoded records, or the exception that the decoder raised, a panic of the native one included."""
    try:
        return decode(records, refused)
    except (FrazilError, MemoryError, CrowdedError):
        raise
    except Exception as problem:  # noqa: BLE001 - returned, and reported with the offset
        return problem
    except BaseException as problem:
        if type(problem).__name__ == "PanicException":
            return problem
        raise


def _first_failing(decode: Decode[Result], records: Records, refused: Refused) -> int | None:
    """Return the last record of the shortest beginning that fails; None if it does not fail alone.

    Then the failure comes and goes, or is one of many records together.
    """
    passes, fails = 0, len(records)
    while passes + 1 < fails:
        middle = (passes + fails) // 2
        if isinstance(_failure(decode, records.first(middle), refused), BaseException):
            fails = middle
        else:
            passes = middle
    culprit = fails - 1
    if culprit in refused:
        return None
    alone = isinstance(_failure(decode, records.first(fails).after(culprit), {}), BaseException)
    return culprit if alone else None


def blanked(records: Records, refused: Refused) -> Records:
    """The records with nothing in those that are refused."""
    if not refused:
        return records
    everything = np.arange(len(records))
    kept = pa.array(everything, mask=np.isin(everything, list(refused)))
    return replace(
        records,
        timestamps_ms=records.timestamps_ms.take(kept),
        keys=records.keys.take(kept),
        values=records.values.take(kept),
        headers=records.headers.take(kept),
    )
