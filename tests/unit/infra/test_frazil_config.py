from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from frazil.model.secret import Secret, revealed
from frazil.model.settings import CatalogSettings, GlueSource, Settings
from frazil.specs.load import load_settings
from infra.components.frazil_config import Values, frazil_yaml, snowflake_section
from infra.components.kafka import Kafka
from infra.reports.picture import ACCOUNT
from infra.settings.model import ExistingWarehouse, PolicyKey

CONFLUENT = Kafka(
    name="lkc-1y3y5",
    bootstrap_servers="SASL_SSL://pkc-1.us-east-1.aws.confluent.cloud:9092",
    security_protocol="sasl_ssl",
    sasl_mechanism="PLAIN",
    msk_iam=False,
    credentials="frazil/dev/materializer",
    registry_url="https://psrc-1.us-east-1.aws.confluent.cloud",
    registry_credentials="frazil/dev/materializer",
    key_holders=None,
)
OPEN = replace(
    CONFLUENT,
    bootstrap_servers="localhost:9092",
    security_protocol="plaintext",
    sasl_mechanism=None,
    credentials=None,
    registry_url="http://localhost:8081",
    registry_credentials=None,
)


class Vault:
    """Secrets by name, each with its own key."""

    def read(self, name: str) -> str | None:
        keys = {f"{part}_api_key": f"{part} key of {name}" for part in ("kafka", "registry")}
        keys |= {part: f"{part} of {name}" for part in ("hash_key", "dead_letter_key")}
        keys["private_key"] = f"private key of {name}"
        return json.dumps({**keys, **{f"{part}_api_secret": f'it\'s "{part}"' for part in ("kafka", "registry")}})


def text_of(
    kafka: Kafka,
    *,
    snowflake: Values | None = None,
    policies: Mapping[str, PolicyKey] | None = None,
    **catalog: str,
) -> str:
    warehouse, region = "s3://frazil-dev/lkc-1y3y5", "us-east-1"
    named = {name.replace("_", "."): value for name, value in catalog.items()}
    return frazil_yaml(
        kafka,
        warehouse=warehouse,
        database="lkc_1y3y5",
        region=region,
        catalog=named,
        snowflake=snowflake,
        policies=policies,
    )


def loaded(text: str, folder: Path) -> Settings:
    """As a job run reads what Terraform wrote, beside the table specs of this checkout."""
    (folder / "tables").symlink_to(Path(__file__).parents[3] / "tables")
    (folder / "frazil.yaml").write_text(text.replace("$${", "${"))
    return load_settings(folder / "frazil.yaml", {}, Vault())


def test_a_job_reads_its_configuration_with_its_secrets(tmp_path: Path) -> None:
    settings = loaded(text_of(CONFLUENT), tmp_path)

    assert revealed(settings.kafka) == {
        "bootstrap.servers": "SASL_SSL://pkc-1.us-east-1.aws.confluent.cloud:9092",
        "security.protocol": "sasl_ssl",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "kafka key of frazil/dev/materializer",
        "sasl.password": 'it\'s "kafka"',
    }
    assert settings.registry.url == "https://psrc-1.us-east-1.aws.confluent.cloud"
    user_info = settings.registry.properties["basic.auth.user.info"]
    assert isinstance(user_info, Secret)
    assert user_info.reveal() == 'registry key of frazil/dev/materializer:it\'s "registry"'
    assert settings.catalog == CatalogSettings("glue", "s3://frazil-dev/lkc-1y3y5", {"client.region": "us-east-1"})
    assert settings.database == "lkc_1y3y5"


def test_a_cluster_that_asks_nobody_gets_no_credentials(tmp_path: Path) -> None:
    text = text_of(OPEN, s3_endpoint="http://127.0.0.1:5000", glue_endpoint="http://127.0.0.1:5000")

    settings = loaded(text, tmp_path)

    assert "secret" not in text.removeprefix(text.partition("\n")[0])
    assert settings.kafka == {"bootstrap.servers": "localhost:9092", "security.protocol": "plaintext"}
    assert settings.catalog.properties == {
        "client.region": "us-east-1",
        "s3.endpoint": "http://127.0.0.1:5000",
        "glue.endpoint": "http://127.0.0.1:5000",
    }


def test_iam_of_msk_is_asked_for_in_the_words_of_the_job(tmp_path: Path) -> None:
    text = text_of(replace(OPEN, security_protocol="sasl_ssl", msk_iam=True))

    assert loaded(text, tmp_path).kafka["aws_msk_iam"] == "true"


def read_masked(folder: Path, text: str) -> Settings:
    (folder / "tables").mkdir()
    (folder / "tables" / "orders.yaml").write_text("topic: orders\nwire_format: glue\ncolumns: {email: {mask: hash}}\n")
    (folder / "frazil.yaml").write_text(text.replace("$${", "${"))
    return load_settings(folder / "frazil.yaml", {}, Vault())


def test_a_registry_in_glue_and_the_keys_of_masks_are_what_a_job_with_masked_columns_needs(tmp_path: Path) -> None:
    kafka = replace(OPEN, registry_url="", glue_registry=GlueSource("payments", "eu-west-1"))
    keys = {"hash_key": PolicyKey("h1", "acme/masks"), "dead_letter_key": PolicyKey("2026", "acme/letters")}

    settings = read_masked(tmp_path, text_of(kafka, policies=keys))

    (spec,) = settings.tables
    assert settings.registry is not None
    assert settings.registry.glue == GlueSource("payments", "eu-west-1")
    assert spec.value_settings.hash_key is not None and spec.dead_letter_key is not None
    hashes, letters = spec.value_settings.hash_key.read(), spec.dead_letter_key.read()
    assert (hashes.id, letters.id) == ("h1", "2026")
    assert isinstance(hashes.secret, Secret) and hashes.secret.reveal() == "hash_key of acme/masks"
    assert isinstance(letters.secret, Secret) and letters.secret.reveal() == "dead_letter_key of acme/letters"


def test_who_reads_the_tables_in_snowflake_is_named_as_its_stack_names_it(tmp_path: Path) -> None:
    section = snowflake_section("dev", ACCOUNT)

    found = loaded(text_of(OPEN, snowflake=section), tmp_path).snowflake

    assert found is not None
    assert (found.account, found.url) == ("ACME-LAKE", None)
    assert (found.database, found.schema, found.warehouse) == ("FRAZIL_DEV", "LAKE", "FRAZIL_DEV")
    assert found.loader is not None and found.reader is not None
    assert (found.loader.user, found.reader.user) == ("FRAZIL_DEV_LOADER", "FRAZIL_DEV_READER")
    assert found.loader.private_key.read().reveal() == "private key of frazil/dev/snowflake/loader"


def test_a_double_of_snowflake_has_a_loader_and_no_reader(tmp_path: Path) -> None:
    here = "http://127.0.0.1:4570"

    found = loaded(text_of(OPEN, snowflake=snowflake_section("dev", replace(ACCOUNT, url=here))), tmp_path).snowflake

    assert found is not None and found.loader is not None
    assert (found.url, found.reader) == (here, None)


def test_a_warehouse_and_a_database_by_setting_keep_their_names() -> None:
    account = replace(ACCOUNT, warehouse=ExistingWarehouse("COMPUTE_WH"), database="TRADES")

    section = snowflake_section("dev", account)

    assert (section["warehouse"], section["database"], "url" in section) == ("COMPUTE_WH", "TRADES", False)


def test_the_text_says_secrets_by_name_and_hides_the_mark_from_terraform() -> None:
    lines = text_of(CONFLUENT).splitlines()

    assert "  sasl.password: $${secret:frazil/dev/materializer#kafka_api_secret}" in lines
    assert [line for line in lines if "${" in line.replace("$${", "")] == []
