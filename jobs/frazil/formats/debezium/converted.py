"""The result of converting a column of values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from frazil.model.dead_letter import Reason

Flags: TypeAlias = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Converted:
    """Values of a column, with null for each one in `is_bad`, which cannot be converted; None if there is none.

    `truncated_nanos` counts the values that lost digits below the microsecond.
    """

    values: pa.Array
    is_bad: Flags | None = None
    reason: Reason = Reason.BAD_FORMAT
    detail: str = ""
    truncated_nanos: int = 0


Conversion: TypeAlias = Callable[[pa.Array], Converted]


def flags(booleans: pa.BooleanArray) -> Flags:
    """Return booleans as numpy's, with False for null."""
    whole = booleans.fill_null(False) if booleans.null_count else booleans
    known: Flags = whole.to_numpy(zero_copy_only=False)
    return known


def without_bad(values: pa.Array, is_bad: Flags) -> pa.Array:
    """Return the values with null in place of the bad ones."""
    return pc.if_else(pa.array(~is_bad), values, pa.scalar(None, values.type)) if is_bad.any() else values
