"""Grants in AWS Lake Formation, for accounts where it decides who may use Glue's databases and tables.

Where the group IAMAllowedPrincipals has no rights by default, IAM's policies alone open nothing in Glue. The bucket is
not registered as a data location, so its files are read and written by IAM's policies as elsewhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from infra.cdk import Construct
from infra.resources import aws

Use = Literal["read", "tag", "write"]
"""To tag a snapshot is to write a table's metadata: Glue's UpdateTable, but no rows."""

OF_DATABASE: Mapping[Use, tuple[str, ...]] = {
    "read": ("DESCRIBE",),
    "tag": ("DESCRIBE",),
    "write": ("CREATE_TABLE", "DESCRIBE"),
}
OF_TABLES: Mapping[Use, tuple[str, ...]] = {
    "read": ("DESCRIBE", "SELECT"),
    "tag": ("ALTER", "DESCRIBE", "SELECT"),
    "write": ("ALTER", "DELETE", "DESCRIBE", "INSERT", "SELECT"),
}


def grant_tables(scope: Construct, word: str, *, role_arn: str, database: str, use: Use) -> None:
    """Grant a role the database and all of its present and future tables."""
    aws.LakeformationPermissions(
        scope,
        f"{word}-may-use-database",
        principal=role_arn,
        permissions=OF_DATABASE[use],
        database=aws.LakeformationPermissions_Database(name=database),
    )
    aws.LakeformationPermissions(
        scope,
        f"{word}-may-use-tables",
        principal=role_arn,
        permissions=OF_TABLES[use],
        table=aws.LakeformationPermissions_Table(database_name=database, wildcard=True),
    )
