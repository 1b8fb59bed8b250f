"""Find what would stop an export, before it runs on its schedule: its table and the columns that it names."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from datetime import datetime

from frazil.exports.choose import check_columns
from frazil.exports.periods import last_period
from frazil.model.errors import ExportError, FrazilError, Misuse, SpecError
from frazil.model.exports import ExportSpec
from frazil.model.spelling import did_you_mean
from frazil.ports import Lake


def problems(
    exports: Sequence[ExportSpec], lake: Lake, *, to_be: Collection[str], now: datetime
) -> Iterator[FrazilError]:
    """Yield an error for each export that could not run now.

    `to_be` are the tables that specs make. One that does not exist yet has no columns to compare with.
    """
    for spec in exports:
        view = lake.load(spec.table)
        if view is None:
            if spec.table not in to_be:
                yield _unknown(spec, to_be)
            continue
        try:
            check_columns(spec, view, None if spec.window is None else last_period(spec.window, now))
        except (Misuse, ExportError) as error:
            yield SpecError(f"{spec.source_file}: {error.what}", hint=error.hint)


def _unknown(spec: ExportSpec, to_be: Collection[str]) -> SpecError:
    likely = did_you_mean(spec.table, to_be)
    return SpecError(
        f"{spec.source_file}: no spec makes the table {spec.table}, and the catalog does not have it",
        hint=f"did you mean {likely}?" if likely else "correct `table`, or write a spec for the table",
    )
