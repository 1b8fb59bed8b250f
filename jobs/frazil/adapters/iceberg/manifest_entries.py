"""The entries of manifests and manifest lists as their bytes say, without logical types.

fastavro converts logical types to Python's classes, and Python has no date after 9999.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import IO, Any, cast

import fastavro
from pyiceberg.io import InputStream


def entries_in(stream: InputStream) -> Iterator[dict[str, Any]]:
    """Yield the entries. Values of partitions that have a logical type, such as days, are left out."""
    blocks = fastavro.block_reader(cast("IO[bytes]", stream))
    written = json.loads(blocks.metadata["avro.schema"])
    logical = {name for name, kind in _partition(written) if _is_logical(kind)}
    schema = fastavro.parse_schema(_plain(written))
    for block in blocks:
        for _ in range(block.num_records):
            entry = cast("dict[str, Any]", fastavro.schemaless_reader(block.bytes_, schema, None))
            if logical and (partition := entry["data_file"]["partition"]) is not None:
                entry["data_file"]["partition"] = {name: partition[name] for name in partition.keys() - logical}
            yield entry


def _partition(schema: Any) -> Iterator[tuple[str, Any]]:
    """Yield the fields of the partitions of a manifest; none of a manifest list."""
    for name in ("data_file", "partition"):
        kind: Any = next((each["type"] for each in schema["fields"] if each["name"] == name), {"fields": []})
        schema = next(each for each in kind if each != "null") if isinstance(kind, list) else kind
    for field in schema["fields"]:
        yield field["name"], field["type"]


def _is_logical(kind: Any) -> bool:
    return any(map(_is_logical, kind)) if isinstance(kind, list) else isinstance(kind, dict) and "logicalType" in kind


def _plain(schema: Any) -> Any:
    """Return an Avro schema of the same bytes without logical types."""
    if isinstance(schema, list):
        return [_plain(each) for each in schema]
    if isinstance(schema, dict):
        return {key: _plain(value) for key, value in schema.items() if key != "logicalType"}
    return schema
