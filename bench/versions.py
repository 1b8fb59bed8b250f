"""How long does a start take to read every version of a schema that grew column by column?

Writes a section of bench/RESULTS.md. The texts are read as a start reads them: parsed, and mapped to columns. Then a
decoder is opened for each, as a task does that meets all of them.

Usage: python -m bench.versions [--versions N]
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from datetime import UTC, datetime

from bench.sections import put
from frazil.formats.avro.mapping import map_schema
from frazil.formats.avro.open import open_decoder
from frazil.formats.avro.schema import parse_schema

Json = object
ENUM: Json = {"type": "enum", "name": "E", "symbols": ["A", "B"]}
MONEY: Json = {
    "type": "record",
    "name": "M",
    "fields": [{"name": "amount", "type": "long"}, {"name": "currency", "type": "string"}],
}
KINDS: dict[str, Callable[[int], Json]] = {
    "optional numbers and strings": lambda n: ["null", ("string", "long", "double")[n % 3]],
    "optional decimals": lambda _: [
        "null",
        {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2},
    ],
    "arrays of strings": lambda _: {"type": "array", "items": "string"},
    "optional uuids (noted in each version)": lambda _: ["null", {"type": "string", "logicalType": "uuid"}],
    "optional enums, each a type of its own": lambda n: ["null", {"type": "enum", "name": f"E{n}", "symbols": ["A"]}],
    "optional enums of one type, defined in the first column": lambda n: ["null", "E" if n else ENUM],
    "optional records of one type, defined in the first column": lambda n: ["null", "M" if n else MONEY],
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.versions", description=__doc__)
    parser.add_argument("--versions", type=int, default=1_000, help="versions of each schema")
    versions = parser.parse_args().versions
    rows = [
        f"| {name} | {cpu_seconds(versions, kind, mapped):.1f} | {cpu_seconds(versions, kind, opened):.1f} |"
        for name, kind in KINDS.items()
    ]
    put(
        "Versions of a growing schema",
        f"`python -m bench.versions --versions {versions}`, {datetime.now(UTC):%Y-%m-%d}, on 2 cores shared with other"
        f" work. Version *n* has *n* columns; all {versions:,} versions are parsed and mapped to columns, as on a"
        " start without a stored record of the schemas. In the last column, a decoder is opened for each as well.\n\n"
        "| columns | CPU seconds | with decoders |\n|---|---|---|\n" + "\n".join(rows),
    )


def mapped(text: str) -> None:
    map_schema(parse_schema(text))


def opened(text: str) -> None:
    schema = parse_schema(text)
    map_schema(schema)
    open_decoder(schema)


def cpu_seconds(versions: int, kind: Callable[[int], Json], read: Callable[[str], None]) -> float:
    texts = [version(columns, kind) for columns in range(1, versions + 1)]
    began = time.process_time()
    for text in texts:
        read(text)
    return time.process_time() - began


def version(columns: int, kind: Callable[[int], Json]) -> str:
    fields = [{"name": f"c{n}", "type": kind(n), "default": None, "doc": f"column {n}"} for n in range(columns)]
    return json.dumps({"type": "record", "name": "Wide", "namespace": "bench", "fields": fields})


if __name__ == "__main__":
    main()
