"""Peer: plain Structured Streaming, `from_avro`, the Iceberg sink, available-now; tuned as well as we know how.

Usage: python -m bench.peers.structured_streaming BOOTSTRAP REGISTRY FOLDER RESULT TOPIC...

It drains the topics one after the other, each into a table of its name, and measures each. It writes the same columns,
the default metadata columns included, in batches of the same size, with the same codec, in as many tasks as there are
cores. It proves nothing, has no dead letters, and knows one writer schema.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any

from confluent_kafka.schema_registry import SchemaRegistryClient

from bench.measure import Cost, measured, write_costs
from frazil.local import jars
from frazil.local.java import find_java

BATCH_ROWS = 1_000_000
PROPERTIES = {
    "format-version": "2",
    "write.distribution-mode": "none",
    "write.parquet.compression-codec": "zstd",
    "write.parquet.compression-level": "1",
    "write.target-file-size-bytes": "512000000",
    "write.parquet.dict-size-bytes": "131072",
}


def session(warehouse: Path) -> Any:
    import os  # noqa: PLC0415

    from pyspark.sql import SparkSession  # noqa: PLC0415

    os.environ["JAVA_HOME"] = str(find_java().home)
    class_path = ":".join((jars.class_path("peers"), jars.class_path("iceberg")))
    spark = (
        SparkSession.builder.master("local[*]")
        .appName("peer")
        .config("spark.driver.extraClassPath", class_path)
        .config("spark.driver.memory", "4g")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.extraJavaOptions", "-XX:+UseParallelGC")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.catalog.peer", "org.apache.iceberg.spark.SparkCatalog")
        .config("spark.sql.catalog.peer.type", "jdbc")
        .config("spark.sql.catalog.peer.uri", f"jdbc:sqlite:{warehouse.absolute()}/catalog.db")
        .config("spark.sql.catalog.peer.jdbc.schema-version", "V1")
        .config("spark.sql.catalog.peer.warehouse", str(warehouse.absolute()))
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def kafka(reader: Any, bootstrap: str, topic: str) -> Any:
    """Return a reader of the topic, of a batch or a stream, that fetches as much at a time as the others."""
    return (
        reader.format("kafka")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", topic)
        .option("kafka.max.poll.records", "20000")
        .option("kafka.fetch.max.bytes", str(64 << 20))
        .option("kafka.max.partition.fetch.bytes", str(16 << 20))
        .option("kafka.receive.buffer.bytes", str(1 << 20))
    )


def decoded(source: Any, schema: str) -> Any:
    """Return the rows of what a topic's reader loads."""
    from pyspark.sql import functions as F  # noqa: N812, PLC0415
    from pyspark.sql.avro.functions import from_avro  # noqa: PLC0415

    columns = source.select(
        from_avro(F.expr("substring(value, 6)"), schema).alias("record"),
        F.col("partition").alias("kafka_partition"),
        F.col("offset").alias("kafka_offset"),
        F.col("timestamp").alias("kafka_timestamp"),
        F.col("key").cast("string").alias("kafka_key"),
        F.expr("cast(conv(hex(substring(value, 2, 4)), 16, 10) as int)").alias("kafka_schema_id"),
    )
    metadata = ("kafka_partition", "kafka_offset", "kafka_timestamp", "kafka_key", "kafka_schema_id")
    return columns.select("record.*", *metadata)


def rows_of(spark: Any, bootstrap: str, topic: str, schema: str) -> Any:
    source = kafka(spark.readStream, bootstrap, topic).option("startingOffsets", "earliest")
    rows = decoded(source.option("maxOffsetsPerTrigger", str(BATCH_ROWS)).load(), schema)
    return rows.coalesce(spark.sparkContext.defaultParallelism)


def main(bootstrap: str, registry: str, folder: str, result: str, *topics: str) -> None:
    warehouse = Path(folder)
    shutil.rmtree(warehouse, ignore_errors=True)
    warehouse.mkdir(parents=True)
    spark = session(warehouse)
    spark.sql("CREATE NAMESPACE IF NOT EXISTS peer.bench")
    schemas = SchemaRegistryClient({"url": registry})
    costs = []
    for topic in topics:
        schema = schemas.get_latest_version(f"{topic}-value").schema.schema_str
        assert schema is not None
        costs.append(drained(spark, rows_of(spark, bootstrap, topic, schema), topic, warehouse))
    write_costs(Path(result), costs)
    spark.stop()


def drained(spark: Any, rows: Any, topic: str, warehouse: Path) -> Cost:
    """Write the rows of a topic into its table, and return what that cost; the table is made before the clock."""
    table = spark.createDataFrame([], rows.schema).writeTo(f"peer.bench.{topic}").using("iceberg")
    for name, value in PROPERTIES.items():
        table = table.tableProperty(name, value)
    table.create()

    def drain() -> int:
        query = (
            rows.writeStream.format("iceberg")
            .outputMode("append")
            .option("checkpointLocation", str(warehouse / "checkpoints" / topic))
            .option("fanout-enabled", "true")
            .trigger(availableNow=True)
            .toTable(f"peer.bench.{topic}")
        )
        query.awaitTermination()
        return sum(int(progress["numInputRows"]) for progress in query.recentProgress)

    return measured("structured streaming", drain)


if __name__ == "__main__":
    main(*sys.argv[1:])
