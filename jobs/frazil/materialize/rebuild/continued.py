"""Whether a rebuild continues what an earlier process has begun."""

from __future__ import annotations

from frazil.materialize.changed_spec.applied_spec import applied_by, applied_spec_of, naming_topics, ordered_as
from frazil.materialize.rebuild.checks import is_ahead
from frazil.materialize.rebuild.replacement import read_so_far
from frazil.materialize.state import Standing, standing
from frazil.model.snapshot import Snapshot
from frazil.model.spec import TableSpec
from frazil.ports import RebuildLake


def continues(built: RebuildLake, spec: TableSpec, here: Standing, base: Snapshot | None) -> bool:
    """Return whether the same was begun: by the same spec, and for a rewind at the snapshot `base`."""
    view = built.load(spec.identifier)
    if view is None or is_ahead(standing(view, pipeline=spec.pipeline).state, here.state):
        return False
    of_table = {snapshot.id for snapshot in here.view.ancestry(here.view.head)}
    fork = next((each.id for each in view.ancestry(view.head) if each.id in of_table), None)
    if base is not None:
        return fork == base.id
    applied = applied_spec_of(view.properties, table=spec.identifier)
    wanted = applied_by(ordered_as(naming_topics(read_so_far(spec, here), here.state), view.properties))
    return fork is None and applied is not None and applied.keys == wanted.keys
