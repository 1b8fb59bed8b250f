"""Send the epochs of a transformation's table to its output topics, as those of other tables are sent."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from frazil.model.errors import FrazilError, SpecError
from frazil.model.outputs import OutputSpec
from frazil.model.snapshot import TableView
from frazil.model.transforms import Identified, TransformSpec, TransformTable
from frazil.outputs.follow import FollowedOutput, without_gone
from frazil.outputs.ports import OutputClients
from frazil.ports import Lake

LOG = logging.getLogger(__name__)


def outputs_by(spec: TransformSpec, rows: Identified) -> tuple[OutputSpec, ...]:
    """Return the outputs with the columns of their keys. Raises SpecError if a key would not be one row."""
    for output in spec.outputs:
        if rows.keys and output.key and set(output.key) != set(rows.keys):
            raise SpecError(
                f"{spec.source_file}: outputs: the query groups by {', '.join(rows.keys)}, and the output {output.name}"
                f" has the key {', '.join(output.key)}: a record would replace those of other groups",
                hint="remove `key` from the output",
            )
    return tuple(replace(each, key=rows.keys) if rows.keys else each for each in spec.outputs)


@dataclass(slots=True)
class TransformSending:
    """The outputs of one transformation in one process. `clients` is called if there are any."""

    spec: TransformSpec
    clients: Callable[[], OutputClients]
    now: Callable[[], datetime] = lambda: datetime.now(UTC)
    _rows: Identified | None = None
    _followed: tuple[FollowedOutput, ...] = field(default=())

    def begin(self, lake: Lake, view: TableView, rows: Identified) -> TableView:
        """Let the table record new outputs before its next epoch, and keep no snapshots for those that are gone.

        Raises SpecError for outputs that do not fit the query, and ContendedError.
        """
        view = without_gone(lake, view, self.spec.outputs)
        for each in self._outputs(rows):
            view = each.begin(lake, view)
        return view

    def send(self, lake: Lake, view: TableView, rows: Identified) -> FrazilError | None:
        """Send to each output what it lacks. Return the first failure; the others are sent."""
        first: FrazilError | None = None
        for each in self._outputs(rows):
            named = {"table": view.identifier, "output": each.output.name, "topic": each.output.topic}
            try:
                sent = each.send(self.clients(), lake, view, now=self.now())
            except FrazilError as failure:
                first = first or failure
                LOG.warning("output_failed", extra=named | {"problem": failure.what, "hint": failure.hint})
            else:
                if sent:
                    LOG.info("output_sent", extra=named | {"records": sent})
        return first

    def _outputs(self, rows: Identified) -> tuple[FollowedOutput, ...]:
        if not self._followed or rows != self._rows:
            table = TransformTable(self.spec, rows)
            self._followed = tuple(FollowedOutput(table, each) for each in outputs_by(self.spec, rows))
            self._rows = rows
        return self._followed
