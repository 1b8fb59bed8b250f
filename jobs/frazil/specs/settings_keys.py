"""The keys of `frazil.yaml`."""

from __future__ import annotations

from frazil.model.settings import STATUS_PAGE
from frazil.specs.catalog_keys import CATALOG
from frazil.specs.kafka_keys import KAFKA
from frazil.specs.keys import Derived, Key, Refused, Required, Section
from frazil.specs.policy_keys import POLICIES
from frazil.specs.scalars import PAGE, TABLE_NAME, TEXT, URL
from frazil.specs.shapes import Choice, FilePath, SecretText
from frazil.specs.snowflake_keys import SNOWFLAKE

NONE = Derived("none")
TABLES_FOLDER = "tables"
EXPORTS_FOLDER = "exports"
TRANSFORMS_FOLDER = "transforms"

REGISTRY_TYPE = Key("type", Choice(("confluent", "glue")),
                    "The registry: confluent is any with Confluent's REST API, glue is AWS Glue's.",
                    "confluent")  # fmt: skip
REGISTRY_URL = Key("url", URL, "The URL of the registry; for glue another endpoint, such as that of a VPC.",
                   Derived("required for confluent; for glue, the endpoint of the region"))  # fmt: skip
REGISTRY_REGION = Key("region", TEXT, "For glue, the AWS region of the registry.",
                      Derived("none; required for glue"))  # fmt: skip
REGISTRY_NAME = Key("registry_name", TEXT, "For glue, the name of the registry.", "default-registry")
GLUE_KEYS: tuple[Key[object], ...] = (REGISTRY_TYPE, REGISTRY_REGION, REGISTRY_NAME)
CONFLUENT_KEYS: tuple[Key[object], ...] = (
    Key("basic.auth.user.info", SecretText(), "User and password, or API key and secret, separated by a colon.", NONE),
    Key("ssl.ca.location", FilePath(), "The CA certificates that verify the registry, in PEM.",
        Derived("the system's")),
    Key("ssl.certificate.location", FilePath(), "The client's certificate, in PEM.", NONE),
    Key("ssl.key.location", FilePath(), "The client's private key, in PEM.", NONE),
    Key("ssl.key.password", SecretText(), "The password of the private key.", NONE),
)  # fmt: skip
REGISTRY = Section(
    (*GLUE_KEYS, REGISTRY_URL, *CONFLUENT_KEYS),
    refused=(
        Refused("bearer.auth.*", "bearer tokens are not supported in this release", "use basic.auth.user.info"),
        Refused("basic.auth.credentials.source", "only basic.auth.user.info is supported", "remove the key"),
        Refused("ssl.truststore.*", "this is a setting for Java clients", "give ssl.ca.location, in PEM"),
    ),
)

KAFKA_KEY = Key("kafka", KAFKA, "The Kafka cluster, as librdkafka settings.", Required())
REGISTRY_KEY = Key("schema_registry", REGISTRY, "The schema registry: Confluent's, a compatible one, or AWS Glue's.",
                   Derived("none; required if a table has values or keys with registered schemas"))  # fmt: skip
CATALOG_KEY = Key("catalog", CATALOG, "The Iceberg catalog.", "{}")
DATABASE = Key("database", TABLE_NAME, "The default database of tables.", "lake")
TABLES = Key("tables", TEXT, "The folder with one YAML file per table, relative to frazil.yaml.", f"{TABLES_FOLDER}/")
EXPORTS = Key("exports", TEXT, "The folder with one YAML file per export, relative to frazil.yaml.",
              f"{EXPORTS_FOLDER}/")  # fmt: skip
TRANSFORMS = Key("transforms", TEXT, "The folder with one YAML file per transformation, relative to frazil.yaml.",
                 f"{TRANSFORMS_FOLDER}/")  # fmt: skip

SNOWFLAKE_KEY = Key("snowflake", SNOWFLAKE, "A Snowflake account that reads the tables.", Derived("none"))

POLICIES_KEY = Key("policies", POLICIES, "The keys of column policies.", Derived("none"))

PAGE_KEY = Key("status_page", PAGE,
               "The page that `frazil materialize` keeps in the warehouse, or `none`. If several configurations fill"
               " one warehouse, give each its own name.", STATUS_PAGE)  # fmt: skip

SETTINGS = Section(
    (
        KAFKA_KEY,
        REGISTRY_KEY,
        CATALOG_KEY,
        DATABASE,
        TABLES,
        EXPORTS,
        TRANSFORMS,
        SNOWFLAKE_KEY,
        POLICIES_KEY,
        PAGE_KEY,
    ),
    refused=(
        Refused(
            "topics", "topics are not configured here", "write one file per table in the folder that `tables:` names"
        ),
        Refused("aws_msk_iam", "this key belongs to the brokers", "move the key under `kafka:`"),
    ),
)
