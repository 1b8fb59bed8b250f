"""The HTML page of `frazil status --html`, and the one that `frazil materialize` keeps beside the tables."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from frazil.model.errors import Misuse
from frazil.model.settings import Settings

if TYPE_CHECKING:
    from frazil.key_status import KeyStatus
    from frazil.status import TableStatus
    from frazil.transforms.standing import TransformStanding


def write_page(
    file: Path,
    settings: Settings,
    found: Sequence[TableStatus],
    keys: Sequence[KeyStatus],
    transforms: Sequence[TransformStanding],
) -> None:
    """Write the page of these tables and transformations. Raises Misuse if the file cannot be written."""
    from frazil.adapters.iceberg.lake import IcebergLake  # noqa: PLC0415
    from frazil.monitoring.history import read_histories  # noqa: PLC0415
    from frazil.monitoring.page import status_page  # noqa: PLC0415

    shown = {each.table for each in found}
    specs = [spec for spec in settings.tables if spec.identifier in shown]
    histories = read_histories(IcebergLake(settings.catalog), specs)
    title = f"Tables of {settings.database}"
    text = status_page(found, histories, keys, now=datetime.now(UTC), title=title, transforms=transforms)
    try:
        file.write_text(text, encoding="utf-8")
    except OSError as problem:
        raise Misuse(
            f"cannot write {file}: {problem.strerror or problem}", hint="name a file in a folder that exists"
        ) from problem
    print(f"wrote {file}", file=sys.stderr)
