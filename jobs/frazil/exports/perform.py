"""Carry out an export: pin a snapshot, write its rows to files, then the manifest.

Each step may be the last one before a crash. A snapshot is pinned by a tag whose name follows from the export, so the
next run writes the same rows of the same snapshot. Files without a manifest are no export.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta

from frazil.adapters.iceberg.pinned_scan import PinnedScan
from frazil.adapters.storage.export_folder import ExportFolder
from frazil.exports.choose import Rows, choose
from frazil.exports.editions import INCREMENTS, Edition, Editions, Progress, basis_of, edition_in
from frazil.exports.manifest import Manifest, check_spec
from frazil.exports.parts import Part, PartsWriter
from frazil.exports.streams import Output
from frazil.model.errors import CatalogError, CommitRejectedError, CommitUnknownError, ContendedError, Misuse
from frazil.model.exports import ExportSpec, Period
from frazil.model.snapshot import TableView
from frazil.ports import Lake

ATTEMPTS = 5
"""How often a snapshot is pinned, if other commits come first."""

Watch = Callable[[int, int], None]
"""Called with the number of files of the table that were read, and their total."""


def always() -> bool:
    return True


def unwatched(done: int, total: int) -> None:
    del done, total


@dataclass(frozen=True, slots=True)
class Exported:
    """What is finished of an export in the folder `address`, oldest first. `written` is what this run added.

    `complete` is False if the run had no more time, after it finished `new_files`: the next one continues. `overtaken`
    is True if another run finished the edition that this one wrote.
    """

    address: str
    finished: tuple[Manifest, ...]
    written: Manifest | None = None
    complete: bool = True
    new_files: int = 0
    overtaken: bool = False


class _OutOfTimeError(Exception):
    """`files` are those that this run finished. They are kept."""

    def __init__(self, files: int) -> None:
        super().__init__()
        self.files = files


class _OvertakenError(Exception):
    """Another run has finished the edition."""


@dataclass(slots=True)
class Export:
    """An export of a table. `open_folder` opens a folder by its address.

    `may_continue` is asked after each finished file: if there is no more time, the next run continues after it.
    `may_read` is asked after each file of the table: if not, the file that is being written is given up.
    """

    spec: ExportSpec
    lake: Lake
    open_folder: Callable[[str], ExportFolder]
    now: Callable[[], datetime]
    may_continue: Callable[[], bool] = always
    may_read: Callable[[], bool] = always
    watch: Watch = unwatched

    def run(self, period: Period | None) -> Exported:
        """Export a period, or what was added since the last run if the export is incremental.

        If it is finished, nothing is written, unless rows came late: they are a correction. A table whose rows change
        is exported anew. Raises Misuse, ExportError, or a ServiceError after which the same run can be repeated.
        """
        label = INCREMENTS if period is None else period.label
        folder = self.open_folder(f"{self.spec.to}/{self.spec.name}/{label}")
        editions = Editions(self.spec.name, label, folder)
        finished = editions.finished()
        check_spec(self.spec, finished, folder.address)
        edition = editions.next(finished)
        try:
            rows = self._pinned(editions, edition, finished, period)
            if rows is None:
                self._drop_old_tags()
                return Exported(folder.address, finished)
            manifest = self._written(rows, editions)
        except _OutOfTimeError as stopped:
            return Exported(folder.address, finished, complete=False, new_files=stopped.files)
        except _OvertakenError:
            editions.give_up(edition)
            return Exported(folder.address, editions.finished(), overtaken=True)
        self._drop_old_tags()
        return Exported(folder.address, (*finished, manifest), manifest)

    def _written(self, rows: Rows, editions: Editions) -> Manifest:
        """Write the files of an edition and its manifest.

        Raises _OvertakenError if another run has finished it, which removes files that are being written.
        """
        try:
            parts, columns = _Writing(rows, editions, self.may_continue, self.may_read, self.watch).write()
            check_unfinished(editions, rows.edition)
        except CatalogError:
            check_unfinished(editions, rows.edition)
            raise
        manifest = self._manifest(rows, parts, columns)
        editions.finish(rows.edition, manifest)
        return manifest

    def _drop_old_tags(self) -> None:
        """Drop the tags of this export whose snapshots are too old, so that these can expire.

        If another commit is first, the next run does it.
        """
        view = self._view()
        old = old_tags(self.spec, view, now=self.now())
        if old:
            with suppress(CommitRejectedError, CommitUnknownError):
                self.lake.move_tags(view, put={}, drop=old)

    def _pinned(
        self, editions: Editions, edition: Edition, finished: Sequence[Manifest], period: Period | None
    ) -> Rows | None:
        """Return the rows to write, after their snapshot got its tag, or None if there are none.

        What says that the edition is begun is written before its tag, so no other run takes that for an old one. An old
        tag is dropped by a commit of its own: of two runs that have a snapshot for it then, one commits, and the other
        writes the same snapshot. Raises _OvertakenError if another run has finished the edition.
        """
        for attempt in range(1, ATTEMPTS + 1):
            has_begun = editions.has_begun(edition)  # before the tag is read: its run may have begun between both
            view = self._view()
            tagged = view.tags.get(edition.tag(self.spec))
            rows = choose(self.spec, view, edition, finished, period, begun=tagged if has_begun else None)
            if rows is None or (has_begun and tagged is not None):
                return rows
            rows.scan  # noqa: B018 - a column that is missing is found before anything is changed
            try:
                if self._has_put_tag(view, rows, editions):
                    return rows
            except (CommitRejectedError, CommitUnknownError):
                if attempt == ATTEMPTS:
                    raise
        raise ContendedError(
            f"other runs of the export {self.spec.name} began and ended {ATTEMPTS} times while this one began",
            hint="run the export again",
        )

    def _has_put_tag(self, view: TableView, rows: Rows, editions: Editions) -> bool:
        """Return whether the snapshot of the rows has the tag now, or only an old one was dropped."""
        edition, tag = rows.edition, rows.edition.tag(self.spec)
        if tag in view.tags:
            if not editions.has_begun(edition):
                check_unfinished(editions, edition)
                self.lake.move_tags(view, put={}, drop=[tag])
            return False
        editions.keep(editions.progress(basis_of(rows.spec, edition, rows.snapshot_id, rows.contents)))
        self.lake.move_tags(view, put={tag: rows.snapshot_id})
        return True

    def _view(self) -> TableView:
        view = self.lake.load(self.spec.table)
        if view is None:
            raise Misuse(
                f"the catalog has no table {self.spec.table}",
                hint=f"correct `table` in {self.spec.source_file}, or run `frazil materialize` first",
            )
        return view

    def _manifest(self, rows: Rows, parts: Sequence[Part], columns: Sequence[tuple[str, str]]) -> Manifest:
        window, at = self.spec.window, rows.at
        return Manifest(
            export=self.spec.name,
            table=self.spec.table,
            table_uuid=rows.view.uuid,
            label=rows.edition.label,
            number=rows.edition.number,
            contents=rows.contents,
            snapshot_id=rows.snapshot_id,
            tag=rows.edition.tag(self.spec),
            rows=sum(part.rows for part in parts),
            parts=tuple(parts),
            columns=tuple(columns),
            spec=self.spec.content(),
            created_at=self.now(),
            period=rows.period,
            window_column="" if window is None else window.column,
            time_zone=self.spec.time_zone,
            complete_through=None if at is None else at.state.complete_through,
            positions=None if at is None else at.positions,
        )


def check_unfinished(editions: Editions, edition: Edition) -> None:
    """Raise _OvertakenError if another run has finished the edition."""
    if editions.is_finished(edition):
        raise _OvertakenError


def old_tags(spec: ExportSpec, view: TableView, *, now: datetime) -> list[str]:
    """Return the tags of an export on snapshots that are older than its spec keeps them."""
    if spec.tag_seconds is None:
        return []
    oldest = now - timedelta(seconds=spec.tag_seconds)
    ours = {tag: view.snapshots[at] for tag, at in view.tags.items() if edition_in(tag, spec) is not None}
    return sorted(tag for tag, snapshot in ours.items() if snapshot.committed_at < oldest)


class _Writing:
    """Writes the rows of one edition, from where an interrupted run came to."""

    def __init__(
        self,
        rows: Rows,
        editions: Editions,
        may_continue: Callable[[], bool],
        may_read: Callable[[], bool],
        watch: Watch,
    ) -> None:
        self._rows = rows
        self._editions = editions
        self._may_continue = may_continue
        self._may_read = may_read
        self._watch = watch
        self._begun = self._progress = editions.progress(
            basis_of(rows.spec, rows.edition, rows.snapshot_id, rows.contents)
        )
        self._place = (0, 0)
        """The number of a file of the table, and how many rows of it were given to the writer."""

    def write(self) -> tuple[tuple[Part, ...], list[tuple[str, str]]]:
        """Return the parts, and the names and types of the columns.

        What says that the edition is begun is written first: without it, the next run takes the newest snapshot.
        """
        scan, spec, begun = self._rows.scan, self._rows.spec, self._begun
        self._editions.keep(begun)
        schema = scan.schema_of(spec.columns)
        parts = PartsWriter(spec, schema, self._rows.edition.stem, self._open, self._keep, len(begun.parts))
        try:
            for file in range(begun.file, scan.files):
                self._write_file(scan, file, parts)
                self._watch(file + 1, scan.files)
                if file + 1 < scan.files:
                    self._check_time(self._may_read)
            parts.close()
        finally:
            parts.abandon()
        return self._progress.parts, [(name, scan.types[name]) for name in schema.names]

    def _open(self, name: str) -> Output:
        """Open a file, unless another run has finished the edition: its manifest has the checksums of its own files."""
        check_unfinished(self._editions, self._rows.edition)
        return self._editions.folder.open(name)

    def _write_file(self, scan: PinnedScan, file: int, parts: PartsWriter) -> None:
        done = 0
        for batch in scan.rows_of(file):
            rows = self._rows.left(batch)
            left_out = self._before(file) - done
            done += rows.num_rows
            if rows.num_rows > left_out:
                self._place = (file, done)
                parts.write(rows.slice(max(left_out, 0)))

    def _before(self, file: int) -> int:
        """Return how many rows of a file of the table are in parts of a run before."""
        return self._begun.rows if file == self._begun.file else 0

    def _keep(self, part: Part, left: int) -> None:
        """Remember a finished part, and the place after its last row."""
        file, rows = self._place
        self._progress = Progress(self._progress.basis, (*self._progress.parts, part), file, rows - left)
        self._editions.keep(self._progress)
        self._check_time(self._may_continue)

    def _check_time(self, has_time: Callable[[], bool]) -> None:
        if not has_time():
            raise _OutOfTimeError(len(self._progress.parts) - len(self._begun.parts))
