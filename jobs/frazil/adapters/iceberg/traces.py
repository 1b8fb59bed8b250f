"""Traces of a value in everything that a table stores: each file in its folder is decoded, needed or not.

A row that is deleted by a position delete is a trace, too: its bytes are still in the file.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import unquote

import pyarrow.parquet as pq
from pyiceberg.io import FileIO
from pyiceberg.table import Table

from frazil.adapters.iceberg.delete_files import PATH_ID
from frazil.adapters.iceberg.earlier_versions import EarlierVersions
from frazil.adapters.iceberg.listing import READ_AT_ONCE, list_objects
from frazil.adapters.iceberg.manifest_entries import entries_in
from frazil.adapters.iceberg.reachable import content_of, log_actions, plain, reachable
from frazil.adapters.iceberg.scan import reading
from frazil.adapters.iceberg.valued_rows import path_of, rows_with
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

BOUNDS = ("lower_bounds", "upper_bounds")


@dataclass(frozen=True, slots=True)
class TraceSearch:
    """Looks for one value. `letters` says that the table holds dead letters, whose payloads have no such column."""

    sought: SoughtValue
    letters: bool = False

    def find(self, view: TableView) -> Traces:
        """Look through every file in the table's folder. Raises CatalogError if one cannot be read."""
        table: Table = view.current
        with reading(view.identifier):
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
        with reading(view.identifier):
            holders = _holders(table, {each.address for each in traces}) if traces else {}
        return Traces(
            view.identifier,
            tuple(Trace(each.address, each.kind, each.count, tuple(holders.get(each.address, ()))) for each in traces),
            looked_through=dict(sorted(Counter(kind for _, kind in found if kind).items())),
            not_decoded=tuple(each for each, (_, kind) in zip(addresses, found, strict=True) if not kind),
        )

    def find_everywhere(self, view: TableView, earlier: EarlierVersions) -> Traces:
        """Look through every file, and through the earlier versions of files. Raises CatalogError as `find`.

        If the earlier versions may not be listed, the traces say so.
        """
        found = self.find(view)
        try:
            versions = earlier.below(plain(view.location))
        except CatalogError as refused:
            return replace(found, unlisted=refused.what)
        looked, traces = Counter(found.looked_through), list(found.found)
        with ThreadPoolExecutor(READ_AT_ONCE) as pool:
            read = list(pool.map(lambda each: self._in_file(earlier.files(each), view, each.address), versions))
        for version, (of_version, kind) in zip(versions, read, strict=True):
            looked[f"earlier versions of {kind}" if kind else ""] += 1
            traces += [replace(each, address=str(version), is_earlier=True) for each in of_version]
        del looked[""]
        return replace(found, found=tuple(traces), looked_through=dict(sorted(looked.items())))

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
        except CatalogError:
            raise  # of S3, with the permission that is lacking
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
                count = self._in_parquet(pq.ParquetFile(stream))
                return ("", 0) if count is None else (PARQUET, count)
        if address.endswith(".avro"):
            with io.new_input(address).open() as stream:
                entries = entries_in(stream)
                if self.letters:
                    return MANIFEST, sum(self._in_bounds_of_letters(view, each) for each in entries)
                return MANIFEST, sum(self._in_entry(each, lacking) for each in entries)
        if address.endswith((".metadata.json", ".metadata.json.gz")):
            return METADATA, 0 if self.letters else self._in_summaries(content_of(io, address).decode())
        return "", 0

    def _in_parquet(self, file: pq.ParquetFile) -> int | None:
        """Return how many rows have the value; None if no column of the file is known."""
        names = file.schema_arrow.names
        if self.letters:
            return sum(self._letters_in(file, [name for name in PAYLOADS if name in names]))
        found = rows_with(self.sought, file)
        return None if found is None else len(found) + sum(map(self._is_in_path, _paths_in(file)))

    def _letters_in(self, file: pq.ParquetFile, payloads: list[str]) -> Iterator[int]:
        for batch in file.iter_batches(columns=payloads):
            yield sum(any(map(self.sought.is_in_payload, row.values())) for row in batch.to_pylist())

    def _in_summaries(self, metadata: str) -> int:
        """Return how often metadata names a partition with the value, as summaries of other engines do."""
        text = unquote(metadata)
        return sum(text.count(f"{each}{end}") for each in self._parts_of_paths for end in '/"')

    def _in_bounds_of_letters(self, view: TableView, entry: Any) -> int:
        """Return how often the bounds of keys and values, in an entry of a manifest of dead letters, have the text."""
        file, schema = entry.get("data_file") or {}, view.current.schema()
        ids = {field.field_id for field in schema.fields if field.name in PAYLOADS}
        bounds = (each for name in BOUNDS for each in file.get(name) or ())
        return sum(each["key"] in ids and self._is_in_bytes(each["value"]) for each in bounds)

    def _is_in_bytes(self, bound: bytes) -> bool:
        return any(
            text in bound or (len(text) > len(bound) >= BOUND_CHARACTERS and text.startswith(bound[:-1]))
            for text in (each.encode() for each in self.sought.texts)
        )

    def _in_entry(self, entry: Any, lacking: Collection[str]) -> int:
        """Return how often an entry of a manifest, or of a manifest list, shows the value.

        A shortened bound of a file that lacks the value is that of another value.
        """
        file = entry.get("data_file")
        partitioned = [each.value for each in self.sought.columns if each.partitioned]
        if file is None:
            shown = [each[name] for each in entry.get("partitions") or () for name in ("lower_bound", "upper_bound")]
            return sum(_is_bound(value, each) for value in partitioned for each in shown)
        bounds = [(each["key"], each["value"]) for name in BOUNDS for each in file.get(name) or ()]
        whole_only = plain(file["file_path"]) in lacking
        known = [(key, bound) for key, bound in bounds if not (whole_only and len(bound) >= BOUND_CHARACTERS)]
        count = sum(_is_bound(c.value, bound) for c in self.sought.columns for key, bound in known if key == c.field_id)
        count += sum(_is(value, each) for value in partitioned for each in (file.get("partition") or {}).values())
        paths = [file["file_path"], *(bound.decode(errors="replace") for key, bound in bounds if key == PATH_ID)]
        return count + sum(map(self._is_in_path, paths))

    def _in_action(self, action: Mapping[str, Any]) -> int:
        """Return how often an action of a Delta log shows the value."""
        count = 0
        for file in filter(None, (action.get("add"), action.get("remove"))):
            stats, values = json.loads(file.get("stats") or "{}"), dict(file.get("partitionValues") or {})
            for name in self.sought.labels:
                bounds = [_at(stats.get(kind), name) for kind in ("minValues", "maxValues")]
                count += any(_is(each.value, bound) for each in self.sought.columns for bound in bounds)
                count += values.get(name) in self._values
            count += self._is_in_path(file["path"])
        return count

    @property
    def _values(self) -> set[str]:
        return {str(each.value) for each in self.sought.columns}

    @property
    def _parts_of_paths(self) -> set[str]:
        """The names of folders of files with the value, in a table that is partitioned by it."""
        return {f"{label.rpartition('.')[2]}={value}" for label in self.sought.labels for value in self._values}

    def _is_in_path(self, path: str) -> bool:
        return any(f"/{part}/" in f"/{unquote(path)}" for part in self._parts_of_paths)


def _is_bound(value: str | int, bound: bytes | None) -> bool:
    if bound is None:
        return False
    if isinstance(value, str):
        return _is(value, bound.decode(errors="replace"))
    return int.from_bytes(bound, "little", signed=True) == value  # 4 bytes, or 8 of a long


def _is(value: str | int, shown: object) -> bool:
    """Return whether a bound is the value, or shows its beginning."""
    if isinstance(value, str) and isinstance(shown, str) and len(value) > len(shown) >= BOUND_CHARACTERS:
        return value.startswith(shown[:-1])
    return shown == value


def _at(bounds: Any, column: str) -> object:
    """Return the bound of a column, which may be in a struct."""
    for name in column.split("."):
        bounds = bounds.get(name) if isinstance(bounds, dict) else None
    return bounds


def _paths_in(file: pq.ParquetFile) -> set[str]:
    """Return the paths of data files that a file of position deletes names; none of another file."""
    path = path_of(file.schema_arrow, PATH_ID)
    batches = () if path is None else file.iter_batches(columns=list(path))
    return {each for batch in batches for each in batch.column(0).unique().to_pylist()}


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
