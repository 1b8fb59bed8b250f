"""Spark with Iceberg's own Java, as a reader of tables of any catalog."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from breadth import Table
from pyspark.sql import SparkSession

from tests.faults.spark_catalogs import spark_catalog, start_environment, start_settings


@contextmanager
def spark_session() -> Iterator[SparkSession]:
    """A session on catalogs that each test names."""
    builder = SparkSession.builder.master("local[2]").appName("readers")
    for name, value in {**start_settings(), "spark.sql.session.timeZone": "UTC"}.items():
        builder = builder.config(name, value)
    with patch.dict(os.environ, start_environment()):
        session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()


def in_spark(spark: SparkSession, table: Table) -> list[dict[str, Any]]:
    """Rows as Spark reads them, in the order of partition and offset."""
    use_catalog(spark, table)
    found = spark.sql(f"select * from {name_in_spark(table)} order by kafka_partition, kafka_offset")
    return found.toArrow().to_pylist()  # PySpark's own Python values of times know no year 1


def name_in_spark(table: Table) -> str:
    """An embedded catalog has the name that its tables are listed under."""
    return f"{'frazil' if table.catalog.type == 'jdbc' else 'on_glue'}.{table.spec.identifier}"


def use_catalog(spark: SparkSession, table: Table) -> None:
    catalog, _, _ = name_in_spark(table).partition(".")
    for name, value in spark_catalog(catalog, table.catalog).items():
        spark.conf.set(name, value)
    spark._jsparkSession.sessionState().catalogManager().reset()
