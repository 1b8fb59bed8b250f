"""Where other engines find a table."""

from __future__ import annotations

from dataclasses import dataclass

from frazil.model.secret import Secret
from frazil.model.settings import CatalogSettings, SnowflakeSettings
from frazil.model.spec import TableSpec
from frazil.model.sql_text import quoted

CREDENTIALS = ("access-key", "secret", "token", "password", "profile-name")
"""What is in the name of a catalog's property that holds a credential, or names one of this machine."""


@dataclass(frozen=True, slots=True)
class TableAddress:
    """A table, its catalog, and what engines in AWS and Snowflake call it.

    `metadata_file` is the newest one; None for a table that does not exist yet. `account` and `region` are those of the
    AWS Glue that has the table; None for another catalog.
    """

    spec: TableSpec
    catalog: CatalogSettings
    catalog_file: str | None = None
    snowflake: SnowflakeSettings | None = None
    account: str | None = None
    region: str | None = None
    metadata_file: str | None = None

    @property
    def plain_properties(self) -> dict[str, str]:
        """The properties of the catalog, such as endpoints, without credentials."""
        return {
            name: value
            for name, value in self.catalog.properties.items()
            if not isinstance(value, Secret) and not any(word in name for word in CREDENTIALS)
        }

    def quoted(self, mark: str = '"') -> str:
        """Database and table as identifiers of SQL."""
        return f"{quoted(self.spec.database, mark)}.{quoted(self.spec.table, mark)}"
