"""Open the storage that files are written to."""

from __future__ import annotations

from collections.abc import Mapping

from pyiceberg.io import FileIO, load_file_io

from frazil.model.secret import SettingValue, revealed


def open_storage(
    settings: Mapping[str, SettingValue], location: str, *, table_properties: Mapping[str, str] | None = None
) -> FileIO:
    """Return PyIceberg's access to `location`. Properties of a table override the catalog's settings."""
    return load_file_io({**revealed(settings), **(table_properties or {})}, location)
