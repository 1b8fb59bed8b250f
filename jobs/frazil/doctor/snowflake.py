"""Check that Snowflake shows the catalog's current snapshot, by the metadata file that its queries read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import takewhile

from frazil.adapters.iceberg.scan import metadata_location, snapshot_in
from frazil.adapters.snowflake import SnowflakeAccount
from frazil.doctor.asking import Asking
from frazil.doctor.finding import Finding, failed, not_asked
from frazil.model.errors import FrazilError
from frazil.model.secret import DeferredSecret
from frazil.model.settings import SnowflakeSettings
from frazil.model.snapshot import TableView
from frazil.model.snowflake import Served, iceberg_table
from frazil.model.spec import TableSpec
from frazil.model.spelling import plural
from frazil.ports import Snowflake

LOGIN_SECONDS = 10.0
"""The time limit of a login, which takes a second or two and needs no warehouse."""

FRESH = timedelta(minutes=5)
"""The age up to which a missing snapshot is normal. Snowflake polls every 30 seconds and then needs time to read."""

READS = ("RUNNING", None)


def reader_of(
    settings: SnowflakeSettings, why_unreadable: Callable[[DeferredSecret], str | None]
) -> tuple[Snowflake | None, str]:
    """Return the account for the check, or None and the reason, such as a key that this process may not read."""
    reader = settings.reader
    if reader is None:
        return None, "frazil.yaml has no snowflake.reader"
    why = why_unreadable(reader.private_key)
    if why is not None:
        return None, why
    return SnowflakeAccount(settings, reader, login_seconds=int(LOGIN_SECONDS)), ""


def ask_snowflake(
    account: Snowflake, specs: Sequence[TableSpec], views: Mapping[str, TableView], asking: Asking, *, now: datetime
) -> Iterator[Finding]:
    """Check each table that Snowflake reads. After a timeout the remaining tables are skipped."""
    patient = replace(asking, seconds=max(asking.seconds, LOGIN_SECONDS))
    is_silent = False
    for spec in specs:
        view, what = views.get(spec.identifier), f"snapshot of {spec.identifier}"
        if is_silent:
            yield not_asked("snowflake", what, "Snowflake did not answer before")
        elif view is None:
            yield not_asked("snowflake", what, "the table could not be loaded, or does not exist yet")
        else:
            finding = _ask(account, spec, view, patient, what, now=now)
            is_silent = finding.is_silence
            yield finding


def _ask(account: Snowflake, spec: TableSpec, view: TableView, asking: Asking, what: str, *, now: datetime) -> Finding:
    try:
        served = asking.within(lambda: account.served(iceberg_table(spec)))
        shown = asking.within(lambda: _snapshot_of(view, served))
    except FrazilError as problem:
        return failed("snowflake", what, problem)
    return compare(view, served, shown, what, now=now)


def _snapshot_of(view: TableView, served: Served) -> int | None:
    location = served.metadata_location
    if location is None:
        return None
    return view.head if location == metadata_location(view) else snapshot_in(view, location)


def compare(view: TableView, served: Served, shown: int | None, what: str, *, now: datetime) -> Finding:
    """Compare the catalog's snapshot with `shown`, the snapshot that queries see; None if there is none yet."""
    if shown == view.head:
        return Finding("snowflake", what, "ok", f"{shown}, as in the catalog")
    if shown is None:
        return Finding("snowflake", what, "failed", f"it shows none: {served.status}", _hint(served))
    chain = list(view.ancestry(view.head))
    missing = list(takewhile(lambda snapshot: snapshot.id != shown, chain))
    if len(missing) == len(chain):
        found = f"it shows {shown}, which has expired or is not an ancestor of the catalog's {view.head}"
        return Finding("snowflake", what, "failed", found, _hint(served))
    behind = now - missing[-1].committed_at
    count = plural(len(missing), "snapshot")
    found = f"it shows {shown}, {count} and {behind.total_seconds():.0f} s behind the catalog's {view.head}"
    late = behind > FRESH or served.refreshing not in READS
    return Finding("snowflake", what, "failed" if late else "ok", found, _hint(served) if late else "")


def _hint(served: Served) -> str:
    if served.refreshing not in READS:
        why = f"its own refresh is {served.refreshing}: fix that error"
    else:
        why = "check Snowflake's access to Glue and the bucket (worksheets/access.sql, worksheets/freshness.sql)"
    return (
        f"{why}; then, as the table's owner, `ALTER ICEBERG TABLE … SET AUTO_REFRESH = FALSE`, `… REFRESH` and"
        " `… SET AUTO_REFRESH = TRUE` refresh it"
    )
