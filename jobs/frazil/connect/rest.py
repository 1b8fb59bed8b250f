"""How engines authenticate at a catalog with Iceberg's REST API. Credentials are placeholders, which people fill in."""

from __future__ import annotations

from collections.abc import Iterator

from frazil.adapters.iceberg.rest_access import TOKEN_PATH
from frazil.model.secret import Secret
from frazil.model.settings import RestSettings
from frazil.model.sql_text import literal

CREDENTIAL = "<client id>:<client secret>"
TOKEN = "<token>"  # noqa: S105 - a placeholder


def library_properties(rest: RestSettings, warehouse: str) -> dict[str, str]:
    """Return the properties that Iceberg's libraries in Python and Java share."""
    found = {"type": "rest", "uri": rest.uri}
    if warehouse:
        found["warehouse"] = warehouse
    if _has(rest, "client_secret"):
        found |= {"credential": CREDENTIAL, "oauth2-server-uri": _token_address(rest)}
        found |= {"scope": scope} if (scope := _shown(rest, "scope")) else {}
    if _has(rest, "token"):
        found["token"] = TOKEN
    if (name := _shown(rest, "signing_name")) is not None:
        region = _shown(rest, "signing_region") or ""
        found |= {"rest.sigv4-enabled": "true", "rest.signing-name": name, "rest.signing-region": region}
    return found


def attached_in_duckdb(rest: RestSettings, warehouse: str) -> Iterator[str]:
    """Yield the statements that attach the catalog under the name `frazil`."""
    endpoint = f"ENDPOINT {literal(rest.uri)}"
    if _has(rest, "client_secret"):
        scope = f", OAUTH2_SCOPE {literal(given)}" if (given := _shown(rest, "scope")) else ""
        server = f"OAUTH2_SERVER_URI {literal(_token_address(rest))}"
        credential = "CLIENT_ID '<client id>', CLIENT_SECRET '<client secret>'"
        yield f"CREATE SECRET frazil_catalog (TYPE iceberg, {credential}, {server}{scope});"
        access = "SECRET frazil_catalog"
    elif _has(rest, "token"):
        yield f"CREATE SECRET frazil_catalog (TYPE iceberg, TOKEN '{TOKEN}');"
        access = "SECRET frazil_catalog"
    elif _has(rest, "signing_name"):
        region = literal(_shown(rest, "signing_region") or "")
        yield f"CREATE SECRET (TYPE s3, PROVIDER credential_chain, REGION {region});"
        access = "AUTHORIZATION_TYPE 'sigv4'"
    else:
        access = "AUTHORIZATION_TYPE 'none'"
    yield f"ATTACH {literal(warehouse)} AS frazil (TYPE iceberg, {access}, {endpoint});"


def in_trino(rest: RestSettings, warehouse: str) -> Iterator[str]:
    """Yield the lines of a catalog's file."""
    yield "iceberg.catalog.type=rest"
    yield f"iceberg.rest-catalog.uri={rest.uri}"
    if warehouse:
        yield f"iceberg.rest-catalog.warehouse={warehouse}"
    if _has(rest, "client_secret") or _has(rest, "token"):
        yield "iceberg.rest-catalog.security=OAUTH2"
    if _has(rest, "client_secret"):
        yield f"iceberg.rest-catalog.oauth2.credential={CREDENTIAL}"
        yield f"iceberg.rest-catalog.oauth2.server-uri={_token_address(rest)}"
        if (scope := _shown(rest, "scope")) is not None:
            yield f"iceberg.rest-catalog.oauth2.scope={scope}"
    elif _has(rest, "token"):
        yield f"iceberg.rest-catalog.oauth2.token={TOKEN}"
    if (name := _shown(rest, "signing_name")) is not None:
        yield "iceberg.rest-catalog.security=SIGV4"
        yield f"iceberg.rest-catalog.signing-name={name}"


def _token_address(rest: RestSettings) -> str:
    return _shown(rest, "oauth2_server_uri") or f"{rest.uri.rstrip('/')}{TOKEN_PATH}"


def _has(rest: RestSettings, name: str) -> bool:
    return rest.properties.get(name) is not None


def _shown(rest: RestSettings, name: str) -> str | None:
    found = rest.properties.get(name)
    return None if isinstance(found, Secret) else found
