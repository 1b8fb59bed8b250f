"""Frazil's jobs: Kafka topics become Iceberg tables, exactly once and provably."""
