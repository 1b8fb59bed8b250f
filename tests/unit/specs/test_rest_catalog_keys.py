"""`catalog.type: rest`: its settings, and what contradicts them."""

from __future__ import annotations

import pytest
from config_files import GOOD, Load

from frazil.model.errors import SettingError, SpecError
from frazil.model.secret import Secret
from frazil.model.settings import NOT_RUNNING_HOST, CatalogSettings, RestSettings

URI = "https://catalog.example.com/api"
CLIENT = "client_id: frazil, client_secret: s3cret"


def catalog(load: Load, keys: str) -> CatalogSettings:
    return load(f"{GOOD}catalog: {{type: rest, uri: '{URI}', {keys}}}", "topic: orders").catalog


def test_a_client_authenticates_with_its_id_and_secret(load: Load) -> None:
    found = catalog(load, f"warehouse: sales, {CLIENT}, scope: 'PRINCIPAL_ROLE:ALL', oauth2_server_uri: '{URI}/token'")

    assert found == CatalogSettings(
        "rest",
        "sales",
        rest=RestSettings(
            URI,
            {
                "client_id": Secret("frazil"),
                "client_secret": Secret("s3cret"),
                "scope": "PRINCIPAL_ROLE:ALL",
                "oauth2_server_uri": f"{URI}/token",
            },
        ),
    )
    assert "s3cret" not in repr(found)


def test_settings_of_the_storage_and_headers_are_handed_on(load: Load) -> None:
    found = catalog(load, "token: t0ken, s3.region: eu-west-1, header.Polaris-Realm: main")

    assert found.properties == {"s3.region": "eu-west-1", "header.Polaris-Realm": "main"}
    assert found.all_properties == {**found.properties, "token": Secret("t0ken")}
    assert (found.address, found.warehouse) == (URI, "")


@pytest.mark.parametrize(
    ("keys", "problem", "hint"),
    [
        ("type: rest", "catalog: required key is missing: uri", "add uri"),
        (f"type: rest, uri: '{URI}/v1'", "uri: clients append /v1 themselves", "remove /v1"),
        ("type: rest, uri: 'https://a:b@c'", "uri: logs show the URL", "client_id and client_secret"),
        (f"type: rest, uri: 'http://far:8181', {CLIENT}", "uri: a secret would be sent without TLS", "write https://"),
        (f"type: rest, uri: '{URI}', {CLIENT}, token: t", "token: contradicts client_id", "keep one"),
        (
            f"type: rest, uri: '{URI}', token: t, signing_name: glue, signing_region: eu-west-1",
            "signing_name: contradicts token",
            "keep one",
        ),
        (f"type: rest, uri: '{URI}', client_id: a", "client_id: client_id needs client_secret", "add client_secret"),
        (f"type: rest, uri: '{URI}', client_secret: a", "client_secret: no effect without client_id", "add client_id"),
        (f"type: rest, uri: '{URI}', scope: a", "scope: no effect without client_id", "remove scope"),
        (f"type: rest, uri: '{URI}', signing_name: glue", "signing_name needs signing_region", "add signing_region"),
        (f"type: rest, uri: '{URI}', signing_region: a", "signing_region needs signing_name", "add signing_name"),
        (f"type: rest, uri: '{URI}', signing_name: s3", "signing_name: expected one of glue, s3tables", ""),
        (
            f"type: rest, uri: '{URI}', credential: 'a:b'",
            "credential: id and secret have keys of their own",
            "client_id",
        ),
        (f"type: rest, uri: '{URI}', rest.sigv4-enabled: true", "settings of Iceberg's clients", "signing_name"),
        (f"type: jdbc, uri: '{URI}'", "uri: no effect, because type is jdbc", "remove uri, or set type: rest"),
    ],
)
def test_contradictions_are_named(load: Load, keys: str, problem: str, hint: str) -> None:
    with pytest.raises(SettingError) as refused:
        load(f"{GOOD}catalog: {{{keys}}}", "topic: orders")

    assert problem in str(refused.value)
    assert hint in str(refused.value)
    assert "s3cret" not in str(refused.value)


@pytest.mark.parametrize("host", ["127.0.0.1:8181", "localhost:8181", NOT_RUNNING_HOST])
def test_secrets_need_no_tls_on_this_machine(load: Load, host: str) -> None:
    found = load(f"{GOOD}catalog: {{type: rest, uri: 'http://{host}', {CLIENT}}}", "topic: orders").catalog

    assert found.address == f"http://{host}"


@pytest.mark.parametrize(("service", "refuses"), [("glue", True), ("s3tables", True), ("execute-api", False)])
def test_names_of_tables_follow_the_rules_of_the_endpoint(load: Load, service: str, refuses: bool) -> None:
    signed = f"{GOOD}catalog: {{type: rest, uri: '{URI}', signing_name: {service}, signing_region: eu-west-1}}"
    spec = "topic: orders\ntable: Orders\nreaders: [duckdb]"

    if refuses:
        with pytest.raises(SpecError, match="AWS Glue supports only lower-case names"):
            load(signed, spec)
    else:
        assert load(signed, spec).tables[0].table == "Orders"
