"""`frazil connect`: what is printed for each engine."""

from __future__ import annotations

from pathlib import Path

import pytest

from frazil.cli import app, connect
from frazil.connect.snippets import ENGINES, snippet
from frazil.connect.table_address import TableAddress
from frazil.model.errors import Misuse
from frazil.model.secret import Secret, SettingValue
from frazil.model.settings import CatalogSettings, RestSettings, SnowflakeSettings
from frazil.model.snowflake import iceberg_table
from frazil.specs.load import load_settings

SERVICES = "kafka: {bootstrap.servers: localhost:9092}\nschema_registry: {url: http://localhost:8081}\n"
HIDDEN = "hidden-value"


class NoSecrets:
    def read(self, name: str) -> str | None:
        raise AssertionError(name)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "frazil.yaml").write_text(SERVICES)
    (tmp_path / "tables").mkdir()
    (tmp_path / "tables/orders.yaml").write_text("topic: orders\nreaders: [snowflake]")
    return tmp_path


def in_glue(folder: Path, *, snowflake: SnowflakeSettings | None = None) -> TableAddress:
    (spec,) = load_settings(folder / "frazil.yaml", {}, NoSecrets()).tables
    properties = {
        "s3.endpoint": "https://storage.example",
        "s3.secret-access-key": HIDDEN,
        "client.access-key-id": HIDDEN,
        "s3.session-token": Secret(HIDDEN),
    }
    catalog = CatalogSettings("glue", "s3://bucket/prefix", properties)
    return TableAddress(spec, catalog, snowflake=snowflake, account="123456789012", region="eu-west-1")


def in_rest(folder: Path, **how: SettingValue) -> TableAddress:
    (spec,) = load_settings(folder / "frazil.yaml", {}, NoSecrets()).tables
    rest = RestSettings("https://catalog.example/api", how)
    return TableAddress(spec, CatalogSettings("rest", "shop", {"s3.region": "eu-west-1"}, rest))


def test_a_rest_catalog_is_attached_with_places_for_the_credentials(folder: Path) -> None:
    at = in_rest(folder, client_id=Secret(HIDDEN), client_secret=Secret(HIDDEN), scope="PRINCIPAL_ROLE:ALL")
    texts = {engine: snippet(engine, at) for engine in ("duckdb", "pyiceberg", "spark", "trino")}

    assert (
        "ATTACH 'shop' AS frazil (TYPE iceberg, SECRET frazil_catalog, ENDPOINT 'https://catalog.example/api');"
        in (texts["duckdb"])
    )
    assert '"credential": "<client id>:<client secret>"' in texts["pyiceberg"]
    assert "spark.sql.catalog.frazil.scope=PRINCIPAL_ROLE:ALL" in texts["spark"]
    assert "iceberg.rest-catalog.oauth2.scope=PRINCIPAL_ROLE:ALL" in texts["trino"]
    assert all(HIDDEN not in text and "/v1/oauth/tokens" in text for text in texts.values())


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ({"token": Secret(HIDDEN)}, "TOKEN '<token>'"),
        ({"signing_name": "glue", "signing_region": "eu-west-1"}, "AUTHORIZATION_TYPE 'sigv4'"),
        ({}, "AUTHORIZATION_TYPE 'none'"),
    ],
)
def test_duckdb_authenticates_as_frazil_does(folder: Path, how: dict[str, SettingValue], said: str) -> None:
    text = snippet("duckdb", in_rest(folder, **how))

    assert said in text
    assert HIDDEN not in text


@pytest.mark.parametrize("engine", [*ENGINES])
def test_no_text_has_a_credential_of_the_catalog(folder: Path, engine: str) -> None:
    account = SnowflakeSettings("org-account", "FRAZIL_DEV", "LAKE", warehouse="FRAZIL_DEV")
    text = snippet(engine, in_glue(folder, snowflake=account))

    assert HIDDEN not in text
    assert "orders" in text.lower()


@pytest.mark.parametrize("engine", ["pandas", "polars", "pyiceberg"])
def test_scripts_are_python(folder: Path, engine: str) -> None:
    text = snippet(engine, in_glue(folder))

    compile(text, engine, "exec")
    assert '"glue.region": "eu-west-1"' in text
    assert '"s3.endpoint": "https://storage.example"' in text


def test_duckdb_attaches_the_account_of_the_caller(folder: Path) -> None:
    text = snippet("duckdb", in_glue(folder))

    assert "ATTACH '123456789012' AS frazil (TYPE iceberg, ENDPOINT_TYPE glue);" in text
    assert 'SELECT * FROM frazil."lake"."orders" LIMIT 10;' in text


def test_snowflake_needs_the_account_and_the_reader(folder: Path) -> None:
    with pytest.raises(Misuse, match="no section `snowflake`"):
        snippet("snowflake", in_glue(folder))
    account = SnowflakeSettings("org-account", "FRAZIL_DEV", "LAKE", warehouse="FRAZIL_DEV")
    at = in_glue(folder, snowflake=account)

    assert f"FRAZIL_DEV.LAKE.{iceberg_table(at.spec)}" in snippet("snowflake", at)


@pytest.mark.parametrize("engine", ["athena", "trino"])
def test_engines_that_cannot_reach_an_embedded_catalog_say_so(
    folder: Path, engine: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert app.run(["connect", engine, "orders"]) == 2

    assert f"{engine.capitalize()} reads tables in" in capsys.readouterr().err


def test_a_table_that_does_not_exist_yet(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert app.run(["connect", "duckdb", "orders"]) == 2

    assert "run `frazil materialize orders` first" in capsys.readouterr().err


def test_a_misspelled_engine(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert app.run(["connect", "pyicebreg", "orders"]) == 2

    assert "did you mean pyiceberg?" in capsys.readouterr().err


def test_the_help_names_each_engine() -> None:
    words = connect.Engine.__metadata__[0].help

    assert all(engine in words for engine in ENGINES)
