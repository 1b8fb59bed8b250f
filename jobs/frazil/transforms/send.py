"""Send the epochs of a transformation's table to its output topics, as those of other tables are sent."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from frazil.model.errors import FrazilError, SpecError
from frazil.model.outputs import OutputSpec
from frazil.model.snapshot import TableView
from frazil.model.transforms import Identified, TransformSpec, TransformTable
from frazil.outputs.follow import FollowedOutput
from frazil.outputs.ports import OutputClients
from frazil.outputs.send_all import begin_all, send_all
from frazil.outputs.standing import output_standing
from frazil.ports import Lake


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


def halted_by_rebuild(view: TableView, spec: TransformSpec, rows: Identified) -> Iterator[str]:
    """Yield for each output of a table that was rebuilt why it halts, and how to continue it."""
    for output in outputs_by(spec, rows):
        standing = output_standing(view, output)
        if standing.problem is not None:
            yield (
                f"{view.identifier}: the output {output.name} sends nothing more: the topic {output.topic} has the"
                f" rows from before the rebuild: give the output another `name` in {spec.source_file}, and best another"
                " topic; it begins with the next batch"
            )


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
        return begin_all(lake, view, self.spec.outputs, self._outputs(rows))

    def send(self, lake: Lake, view: TableView, rows: Identified) -> FrazilError | None:
        """Send to each output what it lacks. Return the first failure; the others are sent."""
        return send_all(self.clients, lake, view, self._outputs(rows), now=self.now)

    def _outputs(self, rows: Identified) -> tuple[FollowedOutput, ...]:
        if not self._followed or rows != self._rows:
            table = TransformTable(self.spec, rows)
            self._followed = tuple(FollowedOutput(table, each) for each in outputs_by(self.spec, rows))
            self._rows = rows
        return self._followed
