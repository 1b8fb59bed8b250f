"""The catalogs of the tests, as a Spark with Iceberg's own Java knows them."""

from __future__ import annotations

from collections.abc import Mapping

from frazil.local import class_data
from frazil.local.jars import class_path
from frazil.local.java import find_java
from frazil.model.secret import revealed
from frazil.model.settings import CatalogSettings

JVM_SETTINGS = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    # the local AWS takes everybody; AWS's own Java asks for a name nonetheless
    "spark.driver.extraJavaOptions": "-Daws.accessKeyId=local -Daws.secretAccessKey=local"
    f" -XX:TieredStopAtLevel=1 -XX:+UseSerialGC {class_data.spark_options()}",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "1",
    # a handful of rows is read sooner than code for them is made
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
}
"""What each Spark of the tests starts with, beside its environment."""


def start_settings(*, memory: str = "1g") -> dict[str, str]:
    return {**JVM_SETTINGS, "spark.driver.memory": memory}


def start_environment() -> dict[str, str]:
    """Return the environment variables that a Spark with these settings starts with: its Java, and Iceberg's jars.

    They come last in the class path. With other jars before those of Spark, Java would ignore the archive of classes.
    """
    return {"JAVA_HOME": str(find_java().home), "SPARK_DIST_CLASSPATH": class_path("iceberg")}


def spark_catalog(name: str, catalog: CatalogSettings) -> dict[str, str]:
    """Settings under which Spark sees the catalog's tables; an embedded catalog keeps the name it was made under."""
    settings = {"cache-enabled": "false", **_own(catalog)}
    prefix = f"spark.sql.catalog.{name}"
    return {prefix: "org.apache.iceberg.spark.SparkCatalog", **{f"{prefix}.{k}": v for k, v in settings.items()}}


def _own(catalog: CatalogSettings) -> dict[str, str]:
    if catalog.rest is not None:
        given = revealed(catalog.rest.properties)
        address, credential = catalog.rest.uri, f"{given['client_id']}:{given['client_secret']}"
        oauth2 = {"credential": credential, "oauth2-server-uri": f"{address}/v1/oauth/tokens"}
        return {"type": "rest", "uri": address, **oauth2}
    own = _on_glue(catalog.properties) if catalog.type == "glue" else _embedded(catalog.warehouse)
    return {"warehouse": catalog.warehouse, **own}


def _embedded(warehouse: str) -> dict[str, str]:
    return {"type": "jdbc", "uri": f"jdbc:sqlite:{warehouse}/catalog.db", "jdbc.schema-version": "V1"}


def _on_glue(properties: Mapping[str, object]) -> dict[str, str]:
    return {
        "type": "glue",
        "io-impl": "org.apache.iceberg.aws.s3.S3FileIO",
        "glue.endpoint": str(properties["glue.endpoint"]),
        "s3.endpoint": str(properties["s3.endpoint"]),
        "s3.path-style-access": "true",
        "client.region": str(properties["s3.region"]),
    }
