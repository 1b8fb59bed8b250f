"""Small manifests of a table become one, so that a manifest list stays short however many commits there are.

Manifests are merged by size class, like the levels of a log-structured merge tree: a data file's entry is copied once
for each class, and not by every merge. PyIceberg and Java's MergeAppend merge all small manifests each time.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from pyiceberg.manifest import ManifestContent, ManifestFile

AT_MOST_ALIKE = 100
"""Manifests of one partition spec and size class in a manifest list, before they are merged."""

MERGED_BYTES = 8 << 20
"""About the largest manifest that a merge makes: the default of `commit.manifest.target-size-bytes`."""

SIZE_CLASSES = (64 << 10, 512 << 10, 4 << 20)
"""Upper bounds in bytes. A manifest beyond the last one is left alone."""


def to_merge(manifests: Sequence[ManifestFile]) -> list[ManifestFile]:
    """Return manifests that one commit should merge into one: none as long as there are few of each size class."""
    alike: dict[tuple[int, int], list[ManifestFile]] = defaultdict(list)
    for manifest in manifests:
        size_class = _size_class(manifest)
        if size_class is not None:
            alike[manifest.partition_spec_id, size_class].append(manifest)
    crowded = [group for group in alike.values() if len(group) > AT_MOST_ALIKE]
    return list(_up_to_the_target(max(crowded, key=len))) if crowded else []


def _size_class(manifest: ManifestFile) -> int | None:
    if manifest.content != ManifestContent.DATA:
        return None
    return next((n for n, bound in enumerate(SIZE_CLASSES) if manifest.manifest_length < bound), None)


def _up_to_the_target(manifests: Sequence[ManifestFile]) -> Iterator[ManifestFile]:
    """The oldest first: they are at the end of a manifest list."""
    total = 0
    for manifest in reversed(manifests):
        total += manifest.manifest_length
        if total > MERGED_BYTES:
            return
        yield manifest
