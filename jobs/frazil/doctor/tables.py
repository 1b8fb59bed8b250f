"""Check that each table's state allows another batch, from its metadata only."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta

from frazil.doctor.finding import Finding, Verdict, failed, not_asked
from frazil.materialize.branches import STAGE_PREFIX
from frazil.materialize.dead_letter_checks import check_owner
from frazil.materialize.dead_letters import PREPARED_PREFIX
from frazil.materialize.pause.pausing import pause_of
from frazil.materialize.state import standing
from frazil.model.errors import FrazilError
from frazil.model.snapshot import TableView
from frazil.model.spec import TableSpec
from frazil.outputs.standing import output_standing

LONGEST_BATCH = timedelta(days=1)
"""A staged branch older than this belongs to a batch that was never published."""


def look_at_tables(specs: Sequence[TableSpec], views: Mapping[str, TableView], *, now: datetime) -> Iterator[Finding]:
    seen: set[str] = set()
    for spec in specs:
        view, dead_letters = views.get(spec.identifier), views.get(spec.dead_letters_identifier)
        if view is None:
            yield not_asked("tables", spec.identifier, "it could not be loaded, or does not exist yet")
        else:
            yield from look_at_table(spec, view, now=now)
        if dead_letters is not None and dead_letters.identifier not in seen:
            seen.add(dead_letters.identifier)
            yield from _dead_letters(spec, dead_letters, now=now)


def look_at_table(spec: TableSpec, view: TableView, *, now: datetime) -> Iterator[Finding]:
    what = f"state of {spec.identifier}"
    try:
        here = standing(view, pipeline=spec.pipeline)
    except FrazilError as problem:
        yield failed("tables", what, problem)
    else:
        hint = "see docs/operate.md, a table was rolled back" if here.rolled_back else ""
        back = ", rolled back: the next batch continues from there" if here.rolled_back else ""
        yield Finding("tables", what, "ok", f"epoch {here.state.epoch}{back}", hint)
        yield from _outputs(spec, view)
    pause = pause_of(view.properties)
    if pause is not None:
        hint = f"fix the cause, then run `frazil resume {spec.identifier}`"
        yield Finding("tables", f"pause of {spec.identifier}", "failed", f"paused {pause}", hint)
    yield from _left_behind(view, STAGE_PREFIX, now)


def _outputs(spec: TableSpec, view: TableView) -> Iterator[Finding]:
    for output in spec.outputs:
        found = output_standing(view, output)
        verdict: Verdict = "ok" if found.problem is None else "failed"
        hint = "" if found.problem is None else "see docs/outputs.md, if an output fails"
        yield Finding("tables", f"output {output.name} of {spec.identifier}", verdict, str(found), hint)


def _dead_letters(spec: TableSpec, view: TableView, *, now: datetime) -> Iterator[Finding]:
    try:
        check_owner(view, spec)
    except FrazilError as problem:
        yield failed("tables", f"owner of {view.identifier}", problem)
    yield from _left_behind(view, PREPARED_PREFIX, now)


def _left_behind(view: TableView, prefix: str, now: datetime) -> Iterator[Finding]:
    old = [
        name
        for name, head in sorted(view.branches.items())
        if name.startswith(prefix) and now - view.snapshots[head].committed_at > LONGEST_BATCH
    ]
    if old:
        found = f"staged more than a day ago and never published: {', '.join(old)}"
        hint = "harmless: the next published batch drops them; run `frazil materialize --once`"
        yield Finding("tables", f"branches of {view.identifier}", "failed", found, hint)
