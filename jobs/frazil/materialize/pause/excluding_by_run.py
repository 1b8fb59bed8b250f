"""Excluding a writer schema in a run, because the spec says what happens to one that does not fit."""

from __future__ import annotations

import logging

from frazil.materialize.branches import ATTEMPTS, given_up
from frazil.materialize.evolve import is_excluded_for
from frazil.materialize.pause.pausing import excluded_schemas, excluded_schemas_property
from frazil.materialize.state import Standing
from frazil.materialize.verdicts import loaded
from frazil.model.errors import CommitError, CommitRejectedError, IncompatibleSchemaError
from frazil.model.schemas import ExcludedSchemas
from frazil.model.snapshot import TableView
from frazil.model.spec import TableSpec
from frazil.ports import Lake

LOG = logging.getLogger(__name__)


def exclude_refused(
    lake: Lake, spec: TableSpec, here: Standing, refused: IncompatibleSchemaError, *, ledger: Standing
) -> TableView:
    """Exclude the schema that the table cannot hold, and return the ledger; `frazil status` lists it from then on.

    `ledger` is the table that stores what is excluded: that of the table's group, or the table itself. If its columns
    were changed meanwhile it is returned as it is: the schema may fit now.

    Raises the refusal if it is not to be excluded, and ContendedError or CatalogError if no commit succeeds.
    """
    already = excluded_schemas(ledger.view.properties)
    if refused.schema_id is None or not is_excluded_for(spec, here.state, refused):
        raise refused
    one = ExcludedSchemas.one(refused.schema_id, of_key=refused.of_key)
    if already | one == already:
        raise refused
    reason: Exception = CommitRejectedError("not tried")
    for _ in range(ATTEMPTS):
        view = loaded(lake, ledger.view.identifier)
        before = excluded_schemas(view.properties)
        after = before | one
        if after == before or view.schema_json != ledger.view.schema_json:
            return view
        ((name, value),) = excluded_schemas_property(after).items()
        try:
            lake.set_property_at(view, name, value)
        except CommitError as failed:
            reason = failed
            continue
        about = {"schema_id": refused.schema_id, "of_key": refused.of_key, "problem": refused.what}
        LOG.warning("schema_excluded", extra={"table": spec.identifier, **about})
    raise given_up(spec.identifier, "exclude a schema", reason) from reason
