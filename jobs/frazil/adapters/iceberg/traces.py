"""Traces of a value in everything that a table stores: each file in its folder is decoded, needed or not.

A row that is deleted by a position delete is a trace, too: its bytes are still in the file.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

import fastavro
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyiceberg.io import FileIO
from pyiceberg.table import Table

from frazil.adapters.iceberg.expiry import READ_AT_ONCE
from frazil.adapters.iceberg.orphans import list_objects
from frazil.adapters.iceberg.reachable import content_of, log_actions, plain, reachable
from frazil.adapters.iceberg.source_nulls import FIELD_ID
from frazil.model.errors import CatalogError
from frazil.model.snapshot import MAIN, TableView
from frazil.model.traces import LETTER, ROW, STATISTIC, SoughtValue, Trace, Traces

BOUND_CHARACTERS = 16
"""Iceberg's writers keep so many characters of a text in a bound. The last one of an upper bound is another."""

PARQUET, MANIFEST = "Parquet files", "manifests and manifest lists"
METADATA, DELTA = "metadata files", "files of the Delta log"
DELETED = "files that were deleted meanwhile"
PAYLOADS = ("key", "value", "headers")
"""The columns of a dead letter that hold the record."""


@dataclass(frozen=True, slots=True)
class TraceSearch:
    """Looks for one value. `letters` says that the table holds dead letters, whose payloads have no such column."""

    sought: SoughtValue
    letters: bool = False

    def find(self, view: TableView) -> Traces:
        """Look through every file in the table's folder. Raises CatalogError if one cannot be read."""
        table: Table = view.current
        addresses = _addresses(view)
        data = [each for each in addresses if _is_data(each)]
        with ThreadPoolExecutor(READ_AT_ONCE) as pool:
            in_data = dict(zip(data, pool.map(lambda each: self._in_file(table.io, view, each), data), strict=True))
            decoded = {each for each, (of_file, kind) in in_data.items() if kind and not of_file}
            rest = [each for each in addresses if each not in in_data]
            others = pool.map(lambda each: self._in_file(table.io, view, each, lacking=decoded), rest)
            by_address = {**in_data, **dict(zip(rest, others, strict=True))}
        found = [by_address[each] for each in addresses]
        traces = [each for of_file, _ in found for each in of_file]
        holders = _holders(table, {each.address for each in traces}) if traces else {}
        return Traces(
            view.identifier,
            tuple(Trace(each.address, each.kind, each.count, tuple(holders.get(each.address, ()))) for each in traces),
            looked_through=dict(sorted(Counter(kind for _, kind in found if kind).items())),
            not_decoded=tuple(each for each, (_, kind) in zip(addresses, found, strict=True) if not kind),
        )

    def is_in(self, view: TableView, address: str) -> bool:
        """Return whether a file, which the table may have no longer, has a trace. Raises CatalogError."""
        return bool(self._in_file(view.current.io, view, address)[0])

    def _in_file(
        self, io: FileIO, view: TableView, address: str, *, lacking: Collection[str] = ()
    ) -> tuple[list[Trace], str]:
        """Return the traces in a file and its kind; the kind is empty if there is no decoder for such files.

        `lacking` are data files that were decoded and have no such value.
        """
        try:
            kind, count = self._counted(io, view, address, lacking)
        except FileNotFoundError:
            return [], DELETED
        except Exception as problem:
            raise CatalogError(
                f"{view.identifier}: cannot look through {address}: {type(problem).__name__}: {problem}",
                hint="run `frazil verify`",
            ) from problem
        of_row = LETTER if self.letters else ROW
        return [Trace(address, of_row if kind == PARQUET else STATISTIC, count)] if count else [], kind

    def _counted(self, io: FileIO, view: TableView, address: str, lacking: Collection[str]) -> tuple[str, int]:
        if "/_delta_log/" in address:
            return DELTA, sum(map(self._in_action, log_actions(io, address)))
        if address.endswith(".parquet"):
            with io.new_input(address).open() as stream:
                file = pq.ParquetFile(stream)
                known = self.letters or _has_ids(file.schema_arrow) or self._by_name(file.schema_arrow) is not None
                return (PARQUET, sum(self._rows_in(file))) if known else ("", 0)
        if address.endswith(".avro"):
            with io.new_input(address).open() as stream:
                entries = fastavro.reader(stream)
                if self.letters:
                    return MANIFEST, sum(self._in_bounds_of_letters(view, each) for each in entries)
                return MANIFEST, sum(self._in_entry(each, lacking) for each in entries)
        if address.endswith((".metadata.json", ".metadata.json.gz")):
            named = f"{self.sought.leaf}={self.sought.value}"
            return METADATA, 0 if self.letters else content_of(io, address).count(named.encode())
        return "", 0

    def _rows_in(self, file: pq.ParquetFile) -> Iterator[int]:
        if self.letters:
            columns = [name for name in PAYLOADS if name in file.schema_arrow.names]
            for batch in file.iter_batches(columns=columns):
                yield sum(any(map(self.sought.is_in_payload, row.values())) for row in batch.to_pylist())
            return
        has_ids = _has_ids(file.schema_arrow)
        path = _path_of(file.schema_arrow, self.sought.field_id) if has_ids else self._by_name(file.schema_arrow)
        if path is None:
            return
        for batch in file.iter_batches(columns=[".".join(path)]):
            column = pc.struct_field(batch.column(0), list(path[1:])) if path[1:] else batch.column(0)
            wide = pa.int64() if pa.types.is_integer(column.type) else pa.string()
            yield pc.sum(pc.equal(column.cast(wide), pa.scalar(self.sought.value, wide))).as_py() or 0

    def _by_name(self, schema: pa.Schema) -> tuple[str, ...] | None:
        """Return the column of an imported file without field ids by its name; None if it has no such column."""
        path = tuple(self.sought.column.split("."))
        return path if path[0] in schema.names else None

    def _in_bounds_of_letters(self, view: TableView, entry: Any) -> int:
        """Return how often the bounds of keys and values, in an entry of a manifest of dead letters, have the text."""
        file, schema = entry.get("data_file") or {}, view.current.schema()
        ids = {field.field_id for field in schema.fields if field.name in PAYLOADS}
        bounds = (each for name in ("lower_bounds", "upper_bounds") for each in file.get(name) or ())
        return sum(each["key"] in ids and self._is_in_bytes(each["value"]) for each in bounds)

    def _is_in_bytes(self, bound: bytes) -> bool:
        text = self.sought.text.encode()
        return text in bound or (len(text) > len(bound) >= BOUND_CHARACTERS and text.startswith(bound[:-1]))

    def _in_entry(self, entry: Any, lacking: Collection[str]) -> int:
        """Return how often an entry of a manifest, or of a manifest list, shows the value.

        A shortened bound of a file that lacks the value is that of another value.
        """
        file = entry.get("data_file")
        if file is None:
            parts = (entry.get("partitions") or ()) if self.sought.partitioned else ()
            return sum(self._is_bound(each[name]) for each in parts for name in ("lower_bound", "upper_bound"))
        bounds = (each for name in ("lower_bounds", "upper_bounds") for each in file.get(name) or ())
        parts = (file.get("partition") or {}).values() if self.sought.partitioned else ()
        own = (each["value"] for each in bounds if each["key"] == self.sought.field_id)
        whole_only = plain(file["file_path"]) in lacking
        count: int = sum(self._is_bound(each) for each in own if not (whole_only and len(each) >= BOUND_CHARACTERS))
        return count + sum(map(self._is, parts)) + self._is_in_path(file["file_path"])

    def _in_action(self, action: Mapping[str, Any]) -> int:
        """Return how often an action of a Delta log shows the value."""
        count = 0
        for file in filter(None, (action.get("add"), action.get("remove"))):
            stats = json.loads(file.get("stats") or "{}")
            bounds = (_at(stats.get(name), self.sought.column) for name in ("minValues", "maxValues"))
            values = dict(file.get("partitionValues") or {})
            count += sum(map(self._is, bounds)) + (values.get(self.sought.column) == str(self.sought.value))
            count += self._is_in_path(file["path"])
        return count

    def _is_in_path(self, path: str) -> bool:
        return f"/{self.sought.leaf}={self.sought.value}/" in f"/{unquote(path)}"

    def _is_bound(self, bound: bytes | None) -> bool:
        if bound is None:
            return False
        if isinstance(self.sought.value, str):
            return self._is(bound.decode(errors="replace"))
        return int.from_bytes(bound, "little", signed=True) == self.sought.value  # 4 bytes, or 8 of a long

    def _is(self, shown: object) -> bool:
        """Return whether a bound is the value, or shows its beginning."""
        text = self.sought.value
        if isinstance(text, str) and isinstance(shown, str) and len(text) > len(shown) >= BOUND_CHARACTERS:
            return text.startswith(shown[:-1])
        return shown == text


def _at(bounds: Any, column: str) -> object:
    """Return the bound of a column, which may be in a struct."""
    for name in column.split("."):
        bounds = bounds.get(name) if isinstance(bounds, dict) else None
    return bounds


def _is_data(address: str) -> bool:
    return address.endswith(".parquet") and "/_delta_log/" not in address


def _addresses(view: TableView) -> list[str]:
    """Return all files in the table's folder, and those that it has elsewhere, such as files that were imported."""
    io, root = view.current.io, plain(view.location).rstrip("/")
    elsewhere = sorted(each for each in reachable(view) if not each.startswith(f"{root}/"))
    return [
        *(each.address for each in list_objects(io, root)),
        *(each for each in elsewhere if io.new_input(each).exists()),
    ]


def _has_ids(schema: pa.Schema) -> bool:
    return any(FIELD_ID in (field.metadata or {}) for field in schema)


def _path_of(fields: pa.Schema | pa.StructType, field_id: int) -> tuple[str, ...] | None:
    """Return the names that lead to a column of a file by its field id, through structs; None if it has none."""
    for field in fields:
        if (field.metadata or {}).get(FIELD_ID) == str(field_id).encode():
            return (field.name,)
        inner = _path_of(field.type, field_id) if pa.types.is_struct(field.type) else None
        if inner is not None:
            return (field.name, *inner)
    return None


def _holders(table: Table, addresses: set[str]) -> Mapping[str, Sequence[str]]:
    """Return what keeps each of the files: `main`, other branches and tags by name, and snapshots without any by id."""
    names: dict[int, list[str]] = {}
    for name, ref in table.metadata.refs.items():
        kind = "" if name == MAIN else f"{ref.snapshot_ref_type.value} "
        names.setdefault(ref.snapshot_id, []).append(f"{kind}{name}")
    return {
        address: [name for each in ids for name in sorted(names.get(each, [f"snapshot {each}"]))]
        for address, ids in holding_snapshots(table, addresses).items()
    }


def holding_snapshots(table: Table, addresses: set[str]) -> Mapping[str, Sequence[int]]:
    """Return the snapshots that keep each of the files: data files, manifests and manifest lists."""
    holders: dict[str, list[int]] = {}
    live: dict[str, set[str]] = {}  # by manifest: most snapshots share most of theirs
    for snapshot in table.metadata.snapshots:
        try:
            manifests = snapshot.manifests(table.io)
        except FileNotFoundError:
            continue  # it has expired since the table was read
        for each in manifests:
            if each.manifest_path not in live:
                entries = each.fetch_manifest_entry(table.io)
                live[each.manifest_path] = addresses & {plain(entry.data_file.file_path) for entry in entries}
        named = {plain(path) for path in (snapshot.manifest_list, *(each.manifest_path for each in manifests))}
        for address in (addresses & named).union(*(live[each.manifest_path] for each in manifests)):
            holders.setdefault(address, []).append(snapshot.snapshot_id)
    return holders
