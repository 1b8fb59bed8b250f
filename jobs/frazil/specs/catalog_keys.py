"""The keys of `catalog` in `frazil.yaml`, and their contradictions."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, cast
from urllib.parse import urlsplit

from frazil.model.loopback import is_loopback
from frazil.model.secret import Secret, SettingValue
from frazil.model.settings import NOT_RUNNING_HOST, CatalogSettings, RestSettings
from frazil.specs.keys import Derived, Key, Refused, Section, Values
from frazil.specs.problems import Problem
from frazil.specs.scalars import TEXT, URL
from frazil.specs.shapes import Choice, SecretText, absolute

NONE = Derived("none")
JDBC_WAREHOUSE = ".frazil/warehouse"
DEFAULT_SCOPE = "catalog"

TYPE = Key(
    "type",
    Choice(("jdbc", "glue", "rest")),
    "The Iceberg catalog: jdbc is embedded (SQLite, for one machine), glue is AWS Glue, rest is any with Iceberg's REST"
    " API.",
    "jdbc",
)
WAREHOUSE = Key(
    "warehouse",
    TEXT,
    "Where tables are stored: a folder for jdbc (including its SQLite file), s3://bucket/prefix for glue. For rest,"
    " what the catalog calls a warehouse: a name, an account or an ARN.",
    Derived(f"{JDBC_WAREHOUSE} for jdbc; required for glue; none for rest"),
)
URI = Key("uri", URL, "For rest, the address of the catalog, without /v1.", Derived("none; required for rest"))
CLIENT_ID = Key("client_id", SecretText(), "For rest with OAuth2, the client's id.", NONE)
CLIENT_SECRET = Key("client_secret", SecretText(), "For rest with OAuth2, the client's secret.", NONE)
SCOPE = Key("scope", TEXT, "For rest with OAuth2, the scope to ask for.", DEFAULT_SCOPE)
TOKEN_URI = Key("oauth2_server_uri", URL, "For rest with OAuth2, the address that issues tokens.",
                Derived("v1/oauth/tokens under uri"))  # fmt: skip
TOKEN = Key("token", SecretText(), "For rest, a bearer token; it cannot be renewed when it expires.", NONE)
SIGNING_NAME = Key(
    "signing_name",
    Choice(("glue", "s3tables", "execute-api")),
    "For rest, sign requests with AWS Signature Version 4 for this service.",
    NONE,
)
SIGNING_REGION = Key("signing_region", TEXT, "For rest with signing_name, the AWS region.",
                     Derived("none; required with signing_name"))  # fmt: skip

REST_KEYS: tuple[Key[Any], ...] = (
    URI, CLIENT_ID, CLIENT_SECRET, SCOPE, TOKEN_URI, TOKEN, SIGNING_NAME, SIGNING_REGION,
)  # fmt: skip
OAUTH2_KEYS: tuple[Key[Any], ...] = (CLIENT_ID, CLIENT_SECRET, SCOPE, TOKEN_URI)
WAYS: tuple[Key[Any], ...] = (CLIENT_ID, TOKEN, SIGNING_NAME)
"""One key of each way to authenticate."""

CATALOG = Section(
    (TYPE, WAREHOUSE, *REST_KEYS),
    refused=(
        Refused("credential", "id and secret have keys of their own", "give client_id and client_secret"),
        Refused("rest.*", "settings of Iceberg's clients are not read", "give signing_name and signing_region"),
        Refused("oauth2-server-uri", "this key is spelled with underscores", "write oauth2_server_uri"),
    ),
    handed_on=("glue.", "s3.", "client.", "header."),
)


def catalog_of(values: Values, folder: Path) -> CatalogSettings:
    kind = cast("Literal['jdbc', 'glue', 'rest']", values[TYPE])
    warehouse = values.get(WAREHOUSE) or (JDBC_WAREHOUSE if kind == "jdbc" else "")
    if kind == "rest":
        return CatalogSettings(kind, warehouse, values.handed_on, rest=_rest_of(values))
    place = absolute(folder, warehouse) if kind == "jdbc" else warehouse.rstrip("/")
    return CatalogSettings(kind, place, values.handed_on)


def _rest_of(values: Values) -> RestSettings:
    given: dict[str, SettingValue] = {}
    unused = (URI,) if values.is_given(CLIENT_ID) else (URI, *OAUTH2_KEYS)
    for key in REST_KEYS:
        value = values.get(key)
        if value is not None and key not in unused:
            given[key.name] = value if isinstance(value, Secret) else str(value)
    return RestSettings(values.get(URI) or "", given)


def naming_of(catalog: CatalogSettings) -> str:
    """Return the type of catalog whose rules the names of tables follow: behind these endpoints, those of AWS Glue."""
    return "glue" if catalog.all_properties.get(SIGNING_NAME.name) in ("glue", "s3tables") else catalog.type


def catalog_problems(values: Values) -> Iterator[Problem]:
    """Yield the contradictions within the section."""
    yield from _warehouse_problems(values)
    if values[TYPE] != "rest":
        for key in REST_KEYS:
            if values.is_given(key):
                what = f"no effect, because type is {values[TYPE]}"
                yield Problem(values.place_of(key), what, f"remove {key.name}, or set type: rest")
        return
    yield from _address_problems(values)
    yield from _authentication_problems(values)


def _warehouse_problems(values: Values) -> Iterator[Problem]:
    kind, warehouse = values[TYPE], values.get(WAREHOUSE)
    place = values.place_of(WAREHOUSE)
    if kind == "glue" and warehouse is None:
        yield Problem(
            place, "a glue catalog requires a warehouse", "add warehouse: s3://bucket/prefix under `catalog:`"
        )
    elif kind == "glue" and not str(warehouse).startswith("s3://"):
        what = f'expected s3://bucket/prefix for a glue catalog, found "{warehouse}"'
        yield Problem(place, what, "begin it with s3://, not with s3a:// or a folder")
    elif kind == "jdbc" and warehouse is not None and ("://" in warehouse or warehouse.startswith("~")):
        what = f'expected a folder for a jdbc catalog, found "{warehouse}"'
        yield Problem(place, what, "give a folder, such as .frazil/warehouse, or set type: glue for a warehouse on S3")


def _address_problems(values: Values) -> Iterator[Problem]:
    if not values.is_given(URI):
        yield Problem(values.place, "required key is missing: uri", "add uri: https://…, the address of the catalog")
    for key in (URI, TOKEN_URI):
        url = values.get(key) or ""
        if "@" in url.split("//", 1)[-1].split("/", 1)[0]:
            what = "logs show the URL, so it must not contain a password"
            yield Problem(values.place_of(key), what, "give client_id and client_secret, or token")
        if url.lower().startswith("http://") and _sends_a_secret(values) and not _stays_here(url):
            what = "a secret would be sent without TLS: http:// is allowed only on loopback"
            yield Problem(values.place_of(key), what, "write https://")
    if (values.get(URI) or "").endswith("/v1"):
        yield Problem(values.place_of(URI), "clients append /v1 themselves", "remove /v1 from the end")


def _sends_a_secret(values: Values) -> bool:
    return values.is_given(TOKEN) or values.is_given(CLIENT_SECRET)


def _stays_here(url: str) -> bool:
    return is_loopback(url) or urlsplit(url).hostname == NOT_RUNNING_HOST


def _authentication_problems(values: Values) -> Iterator[Problem]:
    ways = [key for key in WAYS if values.is_given(key)]
    for key in ways[1:]:
        what = f"contradicts {ways[0].name}: a request authenticates in one way"
        yield Problem(values.place_of(key), what, "keep one of them")
    for key in OAUTH2_KEYS[1:]:
        if values.is_given(key) and not values.is_given(CLIENT_ID):
            yield Problem(values.place_of(key), "no effect without client_id", f"add client_id, or remove {key.name}")
    pairs = ((CLIENT_ID, CLIENT_SECRET), (SIGNING_NAME, SIGNING_REGION), (SIGNING_REGION, SIGNING_NAME))
    for given, needed in pairs:
        if values.is_given(given) and not values.is_given(needed):
            yield Problem(values.place_of(given), f"{given.name} needs {needed.name}", f"add {needed.name}")
