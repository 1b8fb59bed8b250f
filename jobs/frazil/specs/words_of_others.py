"""Keys of other tools, and keys of a table spec in another place, with what to write instead."""

from __future__ import annotations

from collections.abc import Mapping

Hints = Mapping[str, str]
"""A hint for each unknown key; capitals and the marks between words do not count."""


def squeezed(name: str) -> str:
    """Return a key without capitals and without marks between its words, as tools spell one in several ways."""
    return "".join(filter(str.isalnum, name.lower()))


def _all(words: str, hint: str) -> dict[str, str]:
    return {squeezed(word): hint for word in words.split()}


_IDENTITY = (
    "the record's key is the identity of a row: write: upsert keeps the newest record of each key; for columns of the"
    " value, write identity: [column] with write: deduplicate, or with write: upsert and order_by"
)
_MODE = "use write: append, upsert, deduplicate or history"
_ROWS = "a topic's table has every record; choose rows and columns in a transformation that follows it"
_SCHEMA = "below routes, it chooses records; columns come from the registry, or from fields if JSON has no schema"

OF_OTHER_TOOLS: Hints = (
    _all("primary_key primary_keys unique_key merge_key merge_keys record_key record_keys", _IDENTITY)
    | _all("id_columns key_columns key_fields pk pk_fields identifier_fields equality_columns", _IDENTITY)
    | _all("mode write_mode write_disposition insert_mode incremental_strategy", _MODE)
    | _all("materialized operation merge_strategy upsert table_type", _MODE)
    | _all("scd_type stored_as_scd_type", "use write: history")
    | _all("sequence_by precombine_field precombine ordering_field updated_at version_column", "use order_by")
    | _all("on_schema_change schema_evolution merge_schema", "use on_incompatible_schema; safe changes are followed")
    | _all("where filter sql query select transforms", _ROWS)
    | _all("interval schedule every poll_interval commit_interval refresh", "use trigger: {every: 30s}")
    | _all("starting_offsets auto_offset_reset scan_startup_mode start_offset from_offset", "use start")
    | _all("partitioned_by partition_spec partitioning partition_columns partition_fields", "use partition_by")
    | _all("cluster_by clustered_by clustering sort_order", "use sort_by")
    | _all("zorder zorder_by z_order", "use maintain: {z_order: [column, column]}")
    | _all("format value_format", "use value for the format of the records' values")
    | _all("key_format", "use key for the format of the records' keys")
    | _all("name table_name", "use table")
    | _all("source from topic_name", "use topic")
    | _all("retention snapshot_retention expire_snapshots", "use maintain: {keep_snapshots: {age: 24h}}")
    | _all("error_tolerance errors_tolerance record_failure_strategy on_error", "use on_bad_record")
    | _all("schema", _SCHEMA)
    | _all("header field", "write it below routes, in the route whose records it chooses")
)
"""For keys of dbt, dlt, Delta, Flink, Hudi, Kafka Connect and Tableflow, and for those of a route."""

_OF_MODES = "write identity order_by delete_memory"
_OF_SPECS = (
    "topic topics database routes shapes key value wire_format fields tags cdc cdc_deletes cdc_keep cdc_placeholder"
    " cdc_order cdc_connector on_bad_record bad_record_limit on_tombstone on_incompatible_schema evolution trigger"
    " maintain formats outputs start metadata subject key_subject message key_message string_formats"
)

IN_A_ROUTE: Hints = _all(
    _OF_MODES, "tables of routes have write: append; for another one, write one spec per table"
) | (_all(_OF_SPECS, "write it beside routes: it is one for all their tables"))
"""For keys of a table spec that a route does not have."""

IN_A_SHAPE: Hints = _all(f"{_OF_SPECS} columns", "write it beside shapes: it is one for all their tables")
"""For keys of a table spec that a shape does not have."""
