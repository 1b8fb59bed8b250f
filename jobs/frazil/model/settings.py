"""What `frazil.yaml` says, after `specs/` has parsed and validated it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from frazil.model.exports import ExportSpec
from frazil.model.secret import DeferredSecret, SettingValue
from frazil.model.spec import TableSpec
from frazil.model.transforms import TransformSpec

NOT_RUNNING_HOST = "local-services-are-not-running.invalid"
"""The host of a local service that is not running. It never resolves, because `.invalid` is reserved (RFC 2606)."""


STATUS_PAGE = "frazil-status.html"
"""The name of the status page in the warehouse, if no other is chosen."""


@dataclass(frozen=True, slots=True)
class RestSettings:
    """The address of a catalog with Iceberg's REST API, and how requests authenticate, by the keys of `frazil.yaml`."""

    uri: str
    properties: Mapping[str, SettingValue] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CatalogSettings:
    """The Iceberg catalog and the storage of the tables.

    `warehouse` is an absolute folder or an `s3://` prefix; with `rest`, a word that the catalog understands, or empty.
    `properties` are passed to the catalog library unchanged (`glue.endpoint`, `s3.endpoint`, `s3.region`, …). Only
    those of the storage reach tasks.
    """

    type: Literal["jdbc", "glue", "rest"]
    warehouse: str
    properties: Mapping[str, SettingValue] = field(default_factory=dict)
    rest: RestSettings | None = None

    @property
    def address(self) -> str:
        """The place of the catalog, as messages name it."""
        return self.warehouse if self.rest is None else self.rest.uri

    @property
    def all_properties(self) -> Mapping[str, SettingValue]:
        """The properties with those by which requests authenticate."""
        return self.properties if self.rest is None else {**self.properties, **self.rest.properties}


@dataclass(frozen=True, slots=True)
class GlueSource:
    """A registry of AWS Glue, by its name."""

    registry_name: str
    region: str


@dataclass(frozen=True, slots=True)
class RegistrySettings:
    """A registry with Confluent's API, or AWS Glue if `glue` is given; `url` is then Glue's endpoint."""

    url: str
    properties: Mapping[str, SettingValue] = field(default_factory=dict)
    glue: GlueSource | None = None


@dataclass(frozen=True, slots=True)
class SnowflakeUser:
    """A user that logs in with a key pair; the private key is PKCS#8 in PEM."""

    user: str
    private_key: DeferredSecret


@dataclass(frozen=True, slots=True)
class SnowflakeSettings:
    """The account that reads the tables. Names are spelled as Snowflake stores them.

    `loader` refreshes external tables after new Delta logs; `reader` reads their freshness; either may be absent.
    `url` overrides the address that follows from the account.
    """

    account: str
    database: str
    schema: str
    warehouse: str | None = None
    loader: SnowflakeUser | None = None
    reader: SnowflakeUser | None = None
    url: str | None = None


@dataclass(frozen=True, slots=True)
class Settings:
    """`frazil.yaml` and every table spec in `tables_folder`. `kafka` has librdkafka's names as keys.

    `registry` is None only if no table needs one. `secrets` are the names of all secrets that `${secret:…}` refers to.
    `status_page` is the name of the page that a run keeps in the warehouse; None if it keeps none.
    """

    source_file: str
    kafka: Mapping[str, SettingValue]
    registry: RegistrySettings | None
    catalog: CatalogSettings
    database: str
    tables: tuple[TableSpec, ...]
    snowflake: SnowflakeSettings | None = None
    secrets: tuple[str, ...] = ()
    tables_folder: str = ""
    exports: tuple[ExportSpec, ...] = ()
    transforms: tuple[TransformSpec, ...] = ()
    status_page: str | None = STATUS_PAGE
