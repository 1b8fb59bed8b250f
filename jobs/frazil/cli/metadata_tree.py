"""`frazil explain --metadata`: the files of a table, drawn from what they name."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING

from frazil.model.spelling import file_size, plural
from frazil.model.summary import EPOCH

if TYPE_CHECKING:
    from frazil.adapters.iceberg.metadata_tree import Manifest, MetadataTree, NamedFile
    from frazil.model.snapshot import Snapshot, TableView

MOST_SHOWN = 3
"""Manifests of a snapshot, files of a manifest and earlier snapshots that are drawn one by one."""

Branch = tuple[str, "Sequence[Branch]"]
"""A line, and what hangs from it."""


def lines(view: TableView, tree: MetadataTree, *, catalog: str, bounds_of: str) -> Iterator[str]:
    """Yield the table as a tree. `catalog` says which catalog points to it; `bounds_of` is the column of the bounds."""
    metadata = f"metadata file {_name(tree.metadata_file)}, {file_size(tree.metadata_size)}: {_metadata(view, tree)}"
    head = view.head_snapshot()
    below: list[Branch] = [] if head is None else [_head(view, head, tree, bounds_of)]
    earlier = [each for each in view.snapshots.values() if head is None or each.id != head.id]
    newest = sorted(earlier, key=lambda each: each.committed_at, reverse=True)
    below += [(_snapshot(view, each), []) for each in newest[:MOST_SHOWN]]
    below += _more(len(newest), "snapshot", "each with a list of its own")
    yield view.identifier
    pointer = f"{catalog}: names the newest metadata file; a commit exchanges it, if it is still the newest"
    yield from _drawn([(pointer, [(metadata, below)])], "")


def _metadata(view: TableView, tree: MetadataTree) -> str:
    counts = [
        f"format version {view.format_version}",
        plural(tree.schemas, "schema"),
        plural(len(view.snapshots), "snapshot"),
        f"{plural(tree.former_files, 'earlier metadata file')}",
    ]
    return ", ".join(counts)


def _head(view: TableView, head: Snapshot, tree: MetadataTree, bounds_of: str) -> Branch:
    files = list(chain.from_iterable(each.files for each in tree.manifests))
    held = f"{plural(len(tree.manifests), 'manifest')}, {plural(len(files), 'file')}"
    text = f"manifest list {_name(head.manifest_list)}, {file_size(tree.list_size)}: {held}, and Frazil's state"
    shown = [_manifest(view, each, bounds_of) for each in tree.manifests[:MOST_SHOWN]]
    left = sum(len(each.files) for each in tree.manifests[MOST_SHOWN:])
    more = _more(len(tree.manifests), "manifest", plural(left, "file"))
    return _snapshot(view, head), [(text, shown + more)]


def _snapshot(view: TableView, snapshot: Snapshot) -> str:
    names = [name for name, each in chain(view.branches.items(), view.tags.items()) if each == snapshot.id]
    epoch = f", epoch {snapshot.summary[EPOCH]}" if EPOCH in snapshot.summary else ""
    added, rows = snapshot.figure("added-records"), snapshot.live_rows
    text = f"snapshot {snapshot.id}{epoch}, {snapshot.operation} of {plural(added, 'row')}: {plural(rows, 'row')} then"
    return f"{text} ({', '.join(names)})" if names else text


def _manifest(view: TableView, manifest: Manifest, bounds_of: str) -> Branch:
    writer = view.snapshots.get(manifest.added_by)
    by = f"snapshot {manifest.added_by}" if writer is None else f"epoch {writer.summary.get(EPOCH, '?')}"
    text = f"manifest {_name(manifest.path)}, {file_size(manifest.size)}, by {by}: {_counted(manifest.files)}"
    shown: list[Branch] = [(_file(each, bounds_of), []) for each in manifest.files[:MOST_SHOWN]]
    left = sum(each.rows for each in manifest.files[MOST_SHOWN:])
    return text, shown + _more(len(manifest.files), "file", plural(left, "row"))


def _counted(files: Sequence[NamedFile]) -> str:
    kinds = {False: "data file", True: "file"}
    count = {deletes: sum(each.deletes is deletes for each in files) for deletes in kinds}
    text = [plural(count[deletes], kind) + (" of deletes" if deletes else "") for deletes, kind in kinds.items()]
    return " and ".join(each for each, deletes in zip(text, kinds, strict=True) if count[deletes]) or "no files"


def _file(file: NamedFile, bounds_of: str) -> str:
    parts = [_name(file.path), file_size(file.size), plural(file.rows, "deleted row" if file.deletes else "row")]
    parts += [f"{name}={value}" for name, value in file.partition.items()]
    if file.bounds is not None and not file.deletes:
        least, greatest = file.bounds
        parts.append(f"{bounds_of} {least} to {greatest}")
    return ", ".join(parts)


def _more(count: int, noun: str, text: str) -> list[Branch]:
    left = count - MOST_SHOWN
    return [(f"… and {plural(left, f'more {noun}')}, {text}", [])] if left > 0 else []


def _name(path: str) -> str:
    return path.rsplit("/", 1)[-1]


def _drawn(branches: Sequence[Branch], indent: str) -> Iterator[str]:
    for place, (line, below) in enumerate(branches):
        last = place == len(branches) - 1
        yield f"{indent}{'└─' if last else '├─'} {line}"
        yield from _drawn(below, indent + ("   " if last else "│  "))
