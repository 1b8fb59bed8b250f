"""Whether a rebuild continues what an earlier process has begun."""

from __future__ import annotations

from frazil.materialize.changed_spec.applied_spec import applied_by, applied_spec_of, naming_topics, ordered_as
from frazil.materialize.rebuild.checks import is_ahead
from frazil.materialize.rebuild.replacement import read_so_far
from frazil.materialize.state import Standing, standing
from frazil.model.errors import RebuildError
from frazil.model.ingested import WrittenFile
from frazil.model.progress import TableState
from frazil.model.snapshot import Snapshot
from frazil.model.spec import TableSpec
from frazil.model.spelling import plural
from frazil.model.summary import EPOCH
from frazil.ports import RebuildLake


def continues(built: RebuildLake, spec: TableSpec, here: Standing, base: Snapshot | None) -> bool:
    """Return whether the same was begun: by the same spec, and for a rewind at the snapshot `base`.

    Without its first snapshot it may be a rewind whose snapshot has expired, which lacks the dead letters from before.
    """
    view = built.load(spec.identifier)
    if view is None or is_ahead(standing(view, pipeline=spec.pipeline).state, here.state):
        return False
    of_table = {snapshot.id for snapshot in here.view.ancestry(here.view.head)}
    snapshots = [*view.ancestry(view.head)]
    fork = next((each.id for each in snapshots if each.id in of_table), None)
    if base is not None:
        return fork == base.id
    applied = applied_spec_of(view.properties, table=spec.identifier)
    wanted = applied_by(ordered_as(naming_topics(read_so_far(spec, here), here.state), view.properties))
    is_rebuild = fork is None and snapshots[-1].summary.get(EPOCH) == "0"
    return is_rebuild and applied is not None and applied.keys == wanted.keys


def built_letters(built: RebuildLake, spec: TableSpec, state: TableState, base: TableState | None) -> list[WrittenFile]:
    """Return the files with the dead letters that were built, for a rewind since `base`.

    Raises RebuildError unless they have as many as `state` counts.
    """
    counted = state.accounted.dead_letters
    if base is not None and (base.group is None) == (state.group is None):  # otherwise it has become a group since
        counted -= base.accounted.dead_letters
    view = built.load(spec.dead_letters_identifier)
    assert view is not None  # noqa: S101 - the first batch made it
    files = [file for each in view.ancestry(view.head) for file in built.added_files(view, each.id)]
    if (found := sum(file.rows for file in files)) != counted:
        raise RebuildError(
            f"{spec.identifier}: {plural(counted, 'dead letter')} of what was built are counted, but its snapshots show"
            f" {found:,}: some of {spec.dead_letters_identifier} may have expired; readers see the table as it was",
            hint=f"run `frazil rebuild --discard {spec.identifier}`, and the command again, which begins again",
        )
    return files
