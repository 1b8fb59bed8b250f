"""Peer: Structured Streaming, `from_avro`, and Iceberg's `MERGE INTO` in `foreachBatch`, merge-on-read.

Usage: python -m bench.peers.merge_into BOOTSTRAP REGISTRY FOLDER RESULT TOPIC STORED BATCH

The first STORED records are appended before the clock starts. A batch keeps the newest record of each key: `MERGE`
fails if a row has two. It writes the same columns as Frazil, and has no deletes, late records or dead letters.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

from confluent_kafka.schema_registry import SchemaRegistryClient

from bench.keyed_orders import PARTITIONS
from bench.measure import measured
from bench.peers.structured_streaming import PROPERTIES, decoded, kafka, session
from bench.updates import Updates

MERGE_ON_READ = {
    **PROPERTIES,
    "write.merge.mode": "merge-on-read",
    "write.merge.distribution-mode": "none",
    "write.delete.granularity": "file",
}
TABLE = "peer.bench"
COMPACT_EVERY = 10
"""Batches after which files are rewritten of which half of the rows are deleted; Frazil has a rule of its own."""
COMPACT = (
    "CALL peer.system.rewrite_data_files(table => '{table}', options => map('delete-ratio-threshold', '0.5',"
    " 'min-file-size-bytes', '0', 'max-file-size-bytes', '9223372036854775807', 'min-input-files', '1000000'))"
)
MERGE = (
    "MERGE INTO {table} t USING updates s ON t.kafka_key = s.kafka_key"
    " WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
)


def main(bootstrap: str, registry: str, folder: str, result: str, topic: str, stored: str, batch: str) -> None:
    warehouse = Path(folder)
    shutil.rmtree(warehouse, ignore_errors=True)
    warehouse.mkdir(parents=True)
    spark = session(warehouse)
    spark.conf.set("spark.sql.shuffle.partitions", spark.sparkContext.defaultParallelism)
    spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {TABLE}")
    schema = SchemaRegistryClient({"url": registry}).get_latest_version(f"{topic}-value").schema.schema_str
    assert schema is not None
    middle = json.dumps({topic: {str(n): int(stored) // PARTITIONS for n in range(PARTITIONS)}})
    source = kafka(spark.read, bootstrap, topic).option("startingOffsets", "earliest").option("endingOffsets", middle)
    load(decoded(source.load(), schema).coalesce(spark.sparkContext.defaultParallelism), f"{TABLE}.{topic}")
    stream = kafka(spark.readStream, bootstrap, topic).option("startingOffsets", middle)
    rows = decoded(stream.option("maxOffsetsPerTrigger", batch).load(), schema)
    updated(rows, f"{TABLE}.{topic}", warehouse / "checkpoints").write(Path(result))
    spark.stop()


def load(rows: Any, table: str) -> None:
    made = rows.writeTo(table).using("iceberg")
    for name, value in MERGE_ON_READ.items():
        made = made.tableProperty(name, value)
    made.create()


def updated(rows: Any, table: str, checkpoints: Path) -> Updates:
    seconds: list[float] = []

    def merge_all() -> int:
        query = (
            rows.writeStream.foreachBatch(lambda batch, number: merge(batch, number, table))
            .option("checkpointLocation", str(checkpoints))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        done = [each for each in query.recentProgress if each["numInputRows"]]
        seconds.extend(each["durationMs"]["triggerExecution"] / 1000 for each in done)
        return sum(int(each["numInputRows"]) for each in done)

    return Updates(measured("MERGE INTO", merge_all), seconds)


def merge(batch: Any, number: int, table: str) -> None:
    from pyspark.sql import Window  # noqa: PLC0415
    from pyspark.sql import functions as F  # noqa: N812, PLC0415

    newest_first = Window.partitionBy("kafka_key").orderBy(F.desc("kafka_offset"))
    newest = batch.withColumn("rank", F.row_number().over(newest_first)).where("rank = 1").drop("rank")
    newest.createOrReplaceTempView("updates")
    batch.sparkSession.sql(MERGE.format(table=table))
    if (number + 1) % COMPACT_EVERY == 0:
        batch.sparkSession.sql(COMPACT.format(table=table.removeprefix("peer.")))


if __name__ == "__main__":
    main(*sys.argv[1:])
