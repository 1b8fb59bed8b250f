"""Readers that do not read Iceberg: the Delta log beside a table, and Snowflake's external tables over it."""
