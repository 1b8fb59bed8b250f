"""PyIceberg's settings of a catalog."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, assert_never

from frazil.adapters.storage.warehouse_folder import CATALOG_FILE, make_warehouse
from frazil.model.secret import SettingValue, revealed
from frazil.model.settings import CatalogSettings

STORAGE_PREFIXES = ("s3.", "client.")


def storage_properties(settings: CatalogSettings) -> Mapping[str, SettingValue]:
    """Return the properties that tasks get. Tasks do not use a REST catalog, so they get only those of the storage."""
    if settings.type != "rest":
        return dict(settings.properties)
    return {name: value for name, value in settings.properties.items() if name.startswith(STORAGE_PREFIXES)}


def catalog_properties(settings: CatalogSettings) -> dict[str, Any]:
    given = revealed(settings.properties)
    match settings.type:
        case "jdbc":
            folder = Path(settings.warehouse)
            make_warehouse(folder)
            uri = f"sqlite:///{folder / CATALOG_FILE}"
            implementation = "frazil.adapters.iceberg.sql_catalog.QuickSqlCatalog"
            return {"py-catalog-impl": implementation, "uri": uri, "warehouse": settings.warehouse, **given}
        case "glue":
            implementation = "frazil.adapters.iceberg.glue_catalog.QuickGlueCatalog"
            return {"py-catalog-impl": implementation, "warehouse": settings.warehouse, **given}
        case "rest":
            from frazil.adapters.iceberg.rest_catalog import rest_properties  # noqa: PLC0415 - few have such a catalog

            implementation = "frazil.adapters.iceberg.rest_catalog.OneAttemptRestCatalog"
            return {"py-catalog-impl": implementation, **rest_properties(settings), **given}
        case never:
            assert_never(never)
