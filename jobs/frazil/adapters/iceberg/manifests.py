"""Small manifests of a table become one, so that a manifest list stays short however many commits there are.

Manifests are merged by size class, like the levels of a log-structured merge tree: a data file's entry is copied once
for each class, and not by every merge. PyIceberg and Java's MergeAppend merge all small manifests each time.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from pyiceberg.io import FileIO
from pyiceberg.manifest import DataFile, ManifestContent, ManifestFile

from frazil.model.errors import CommitRejectedError
from frazil.model.ingested import DeletedRows, Deletion, DroppedFile, ForgottenFiles

AT_MOST_ALIKE = 100
"""Manifests of one partition spec and size class in a manifest list, before they are merged."""

MERGED_BYTES = 8 << 20
"""About the largest manifest that a merge makes: the default of `commit.manifest.target-size-bytes`."""

SIZE_CLASSES = (64 << 10, 512 << 10, 4 << 20)
"""Upper bounds in bytes. A manifest beyond the last one is left alone."""


def with_files(manifests: Sequence[ManifestFile]) -> list[ManifestFile]:
    """Return the manifests that a later snapshot needs: those that name files other than removed ones.

    Readers open each manifest of a list. Only the snapshot that removed files has a manifest that says so.
    """
    return [each for each in manifests if each.has_added_files() or each.has_existing_files()]


def to_merge(manifests: Sequence[ManifestFile]) -> list[ManifestFile]:
    """Return manifests that one commit should merge into one: none as long as there are few of each size class.

    They are all of data files, or all of files of deletes.
    """
    alike: dict[tuple[int, ManifestContent, int], list[ManifestFile]] = defaultdict(list)
    for manifest in manifests:
        size_class = _size_class(manifest)
        if size_class is not None:
            alike[manifest.partition_spec_id, manifest.content, size_class].append(manifest)
    crowded = [group for group in alike.values() if len(group) > AT_MOST_ALIKE]
    return list(_up_to_the_target(max(crowded, key=len))) if crowded else []


def _size_class(manifest: ManifestFile) -> int | None:
    return next((n for n, bound in enumerate(SIZE_CLASSES) if manifest.manifest_length < bound), None)


def _up_to_the_target(manifests: Sequence[ManifestFile]) -> Iterator[ManifestFile]:
    """The oldest first: they are at the end of a manifest list."""
    total = 0
    for manifest in reversed(manifests):
        total += manifest.manifest_length
        if total > MERGED_BYTES:
            return
        yield manifest


def removed_by(deletion: Deletion) -> tuple[str, ...]:
    """Return the files that a snapshot with this deletion does not have any more."""
    match deletion:
        case DeletedRows():
            return deletion.instead_of
        case DroppedFile(path, deletes):
            return (path, *deletes)
        case ForgottenFiles(paths):
            return tuple(paths)


@dataclass(slots=True)
class Removal:
    """Files that a snapshot removes from a table, by path: data files, and files of deletes.

    `touched` are the manifests that name them, and `removed` what these say about them, once `left_of` was called.
    """

    paths: set[str]
    touched: list[ManifestFile] = field(default_factory=list)
    removed: list[DataFile] = field(default_factory=list)

    def left_of(self, io: FileIO, manifests: Sequence[ManifestFile]) -> list[ManifestFile]:
        """Return the manifests that name none of the files. Raises CommitRejectedError if a file is in no manifest."""
        if not self.paths:
            return list(manifests)
        left: list[ManifestFile] = []
        for manifest in manifests:
            files = [entry.data_file for entry in manifest.fetch_manifest_entry(io)]
            here = [file for file in files if file.file_path in self.paths]
            self.removed += here
            (self.touched if here else left).append(manifest)
        missing = sorted(self.paths - {file.file_path for file in self.removed})
        if missing:
            raise CommitRejectedError(f"{missing[0]} is to be removed, and is no file of the table any more")
        return left
