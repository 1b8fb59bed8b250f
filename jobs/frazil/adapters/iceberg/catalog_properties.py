"""PyIceberg's settings of a catalog."""

from __future__ import annotations

from pathlib import Path
from typing import assert_never

from frazil.adapters.storage.warehouse_folder import CATALOG_FILE, make_warehouse
from frazil.model.secret import revealed
from frazil.model.spec import CatalogSettings


def catalog_properties(settings: CatalogSettings) -> dict[str, str]:
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
        case never:
            assert_never(never)
