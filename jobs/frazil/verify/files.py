"""The check that every file in the snapshot's manifests exists, with the rows and bytes that they name."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from frazil.adapters.iceberg.scan import Footer, LiveFile, LiveFiles, footers, live_files
from frazil.model.snapshot import Snapshot, TableView
from frazil.model.spelling import plural
from frazil.proof.verification import Check, Discrepancy, FindingKind
from frazil.verify.scan import Watch


@dataclass(frozen=True, slots=True)
class CheckedFiles:
    """The check, and the files whose rows cannot be read."""

    check: Check
    unreadable: frozenset[str]

    @property
    def unprovable(self) -> bool:
        """Return whether the rows cannot be counted, because the table has files that Frazil cannot read."""
        return any(finding.kind is FindingKind.UNPROVABLE for finding in self.check.findings)


def check_files(view: TableView, snapshot: Snapshot, *, name: str, watch: Watch) -> CheckedFiles:
    """Read the footer of each file, and compare the manifests' totals with the snapshot's summary."""
    live = live_files(view, snapshot.id)
    data, deletes = ([file for file in of if file.format == "PARQUET"] for of in (live.data, live.position_deletes))
    files = [*data, *deletes]
    findings: list[Discrepancy] = list(_other_formats([*live.data, *live.position_deletes]))
    unreadable: set[str] = set()
    for done, footer in enumerate(footers(view, files), start=1):
        found = list(_of_file(footer)) or list(_unsupported(footer) if done <= len(data) else ())
        findings += found
        if any(finding.kind is not FindingKind.CHANGED_FILE for finding in found):
            unreadable.add(footer.file.path)
        watch("files", done, len(files))
    findings += _totals(snapshot, live)
    findings += _equality_deletes(live.equality_deletes)
    says = (
        f"{plural(len(files), 'file')} found, with the rows and bytes that the manifests record;"
        f" the manifests add up to the summary of snapshot {snapshot.id}"
    )
    return CheckedFiles(Check(name, says, tuple(findings)), frozenset(unreadable))


def _other_formats(files: Sequence[LiveFile]) -> Iterator[Discrepancy]:
    others = [file for file in files if file.format != "PARQUET"]
    if others:
        files_of = f"{plural(len(others), 'file')} of another writer"
        what = f"{files_of} in the format {others[0].format}, expected PARQUET: the rows cannot be checked"
        yield Discrepancy(FindingKind.UNPROVABLE, others[0].path, what)


def _of_file(footer: Footer) -> Iterator[Discrepancy]:
    file = footer.file
    if footer.missing:
        yield Discrepancy(FindingKind.MISSING_FILE, file.path, f"the file is missing, with {plural(file.rows, 'row')}")
    elif footer.problem:
        yield Discrepancy(FindingKind.UNREADABLE_FILE, file.path, f"could not read the file: {footer.problem}")
    elif footer.rows != file.rows:
        yield Discrepancy(
            FindingKind.CHANGED_FILE,
            file.path,
            f"{plural(footer.rows, 'row')} in the file, {file.rows:,} in its manifest",
        )
    elif footer.size != file.size:
        yield Discrepancy(
            FindingKind.CHANGED_FILE,
            file.path,
            f"{footer.size:,} bytes, {file.size:,} in its manifest: it was rewritten",
        )


def _unsupported(footer: Footer) -> Iterator[Discrepancy]:
    """Yield a discrepancy for a data file whose columns the Iceberg library cannot read."""
    if footer.unsupported:
        what = (
            f"another writer's file has columns that cannot be read: {footer.unsupported}: its rows cannot be checked"
        )
        yield Discrepancy(FindingKind.UNPROVABLE, footer.file.path, what)


def _totals(snapshot: Snapshot, live: LiveFiles) -> Iterator[Discrepancy]:
    """The specification lets a summary leave totals out; those that it gives must be right."""
    counted = {
        "total-records": sum(file.rows for file in live.data),
        "total-data-files": len(live.data),
        "total-position-deletes": sum(file.rows for file in live.position_deletes),
    }
    for name, count in counted.items():
        said = snapshot.summary.get(name)
        if said is not None and int(said) != count:
            what = f"its summary says {name} = {int(said):,}, its manifests add up to {count:,}"
            yield Discrepancy(FindingKind.SUMMARY, f"snapshot {snapshot.id}", what)


def _equality_deletes(files: Sequence[LiveFile]) -> Iterator[Discrepancy]:
    if files:
        yield Discrepancy(
            FindingKind.UNPROVABLE,
            files[0].path,
            f"{plural(len(files), 'equality delete file')} of another writer: their deletes cannot be read",
        )
