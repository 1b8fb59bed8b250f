"""A table that its catalog no longer lists, found again by the metadata files in its folder."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from pyarrow.fs import FileSelector, FileType
from pyiceberg.catalog import MetastoreCatalog
from pyiceberg.exceptions import NamespaceAlreadyExistsError, TableAlreadyExistsError, ValidationError
from pyiceberg.table import StaticTable

from frazil.adapters.iceberg.lake import IcebergLake
from frazil.adapters.iceberg.live_rows import LiveRows
from frazil.adapters.iceberg.row_sources import SourceChanges
from frazil.adapters.iceberg.view import read_document, view_of
from frazil.materialize.ingest.storage import open_storage
from frazil.model.errors import CatalogError, CommitRejectedError, Misuse
from frazil.model.settings import CatalogSettings
from frazil.model.snapshot import TableView

METADATA_FILE = re.compile(r"(\d+)-[0-9a-f-]+(\.gz)?\.metadata\.json(\.gz)?")
"""The names of metadata files, which begin with the number of commits: Iceberg specification, "Metastore Tables"."""


@dataclass(frozen=True, slots=True)
class FoundMetadata:
    """A metadata file of a table, the number of commits that made it, and when it was written, if storage says so."""

    address: str
    commits: int
    written: datetime | None = None


def location_of(lake: IcebergLake, identifier: str) -> str:
    """Return the folder that the catalog gives to a table by default. Raises Misuse if the catalog decides later."""
    catalog = lake.catalog
    if not isinstance(catalog, MetastoreCatalog):
        raise Misuse(
            f"this catalog chooses the folder of {identifier} itself", hint="name the metadata file with --metadata"
        )
    database, table = identifier.split(".", 1)
    return catalog._resolve_table_location(None, database, table)


def metadata_files(settings: CatalogSettings, location: str) -> list[FoundMetadata]:
    """Return the metadata files in the folder of a table, the newest first. Raises CatalogError."""
    on_s3 = location.startswith("s3://")
    folder = f"{location.removeprefix('s3://').removeprefix('file://')}/metadata"
    try:
        opened: Any = open_storage(settings.properties, location)
        files = opened.fs_by_scheme("s3" if on_s3 else "file", folder.partition("/")[0])
        listed = files.get_file_info(FileSelector(folder, allow_not_found=True))
    except Exception as problem:
        raise _not_answered(f"list {location}/metadata", problem) from problem
    found = [
        FoundMetadata(f"{location}/metadata/{each.base_name}", int(match[1]), each.mtime)
        for each in listed
        if each.type == FileType.File and (match := METADATA_FILE.fullmatch(each.base_name))
    ]
    return sorted(found, key=lambda each: (each.commits, each.address), reverse=True)


@dataclass(frozen=True, slots=True)
class Unusable:
    """A metadata file that names no table which can be read, and why.

    `uuid` and `properties` are what it says of the table, if it can be parsed.
    """

    address: str
    why: str
    uuid: str = ""
    properties: Mapping[str, str] = field(default_factory=dict)


def described_by(lake: IcebergLake, identifier: str, address: str) -> TableView | Unusable:
    """Return the table that a metadata file describes. Raises CatalogError if storage does not answer."""
    uuid, properties = "", dict[str, str]()
    try:
        table = StaticTable.from_metadata(address, lake.catalog.properties)
        uuid, properties = str(table.metadata.table_uuid), table.metadata.properties
        head = table.metadata.current_snapshot()
        if head is not None:
            head.manifests(table.io)
        return view_of(identifier, table, read_document, LiveRows().count, SourceChanges().between)
    except (FileNotFoundError, ValidationError, ValueError) as damaged:
        why = " ".join(f"{type(damaged).__name__}: {damaged}".split())[:300]
        return Unusable(address, why, uuid, properties)
    except Exception as problem:
        raise _not_answered(f"read {address}", problem) from problem


def register(lake: IcebergLake, identifier: str, address: str) -> None:
    """List the table in the catalog again. Raises CommitRejectedError if another process was first, CatalogError."""
    database, _ = identifier.split(".", 1)
    try:
        with suppress(NamespaceAlreadyExistsError):
            lake.catalog.create_namespace(database)
        lake.catalog.register_table(identifier, address)
    except TableAlreadyExistsError as there:
        raise CommitRejectedError(f"another process created {identifier} at the same time") from there
    except Exception as problem:
        raise _not_answered(f"register {identifier} from {address}", problem) from problem


def _not_answered(what: str, problem: Exception) -> CatalogError:
    return CatalogError(
        f"could not {what}: {type(problem).__name__}: {problem}",
        hint="check `catalog` in frazil.yaml, the credentials and the network, then run the command again",
    )
