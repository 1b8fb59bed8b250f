"""How far an output has come, by the table's metadata alone: Kafka is not asked."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from frazil.model.errors import OutputHaltedError
from frazil.model.moments import rfc3339
from frazil.model.outputs import Marker, OutputSpec, record_in
from frazil.model.snapshot import TableView
from frazil.model.spelling import plural
from frazil.outputs.unsent import recorded, unsent_epochs


@dataclass(frozen=True, slots=True)
class OutputStanding:
    """An output of a table. `epoch` is the last one that the table records as sent; None before the output began.

    `unsent` epochs, with `rows` that they added in all, came after it, the first one at `since`. The last of them may
    be in the topic, if the process died before the table had a record of it. `problem` is why no more can be sent.
    """

    name: str
    topic: str
    epoch: int | None = None
    unsent: int = 0
    rows: int = 0
    since: datetime | None = None
    problem: str | None = None

    def __str__(self) -> str:
        if self.problem is not None:
            return f"output {self.name} is halted: {self.problem}"
        if self.epoch is None:
            return f"output {self.name} begins with the next epoch"
        if self.since is None:
            return f"output {self.name} has sent epoch {self.epoch} to {self.topic}, and lacks none"
        unsent = f"{plural(self.unsent, 'epoch')} unsent with {plural(self.rows, 'row')}"
        return f"output {self.name} has sent epoch {self.epoch} to {self.topic}: {unsent}, since {rfc3339(self.since)}"


def output_standing(view: TableView, output: OutputSpec) -> OutputStanding:
    """Return how far an output has come. The table has a state."""
    record = record_in(view.properties, output)
    if record is None:
        return OutputStanding(output.name, output.topic)
    tagged = view.tags.get(output.tag, record.first.snapshot_id)
    epoch = recorded(view, output, record)
    try:
        unsent = unsent_epochs(view, output, Marker(epoch, tagged))
    except OutputHaltedError as halted:
        return OutputStanding(output.name, output.topic, epoch, problem=halted.what)
    return OutputStanding(
        output.name,
        output.topic,
        epoch,
        unsent=len(unsent),
        rows=sum(each.snapshot.figure("added-records") for each in unsent),
        since=unsent[0].snapshot.committed_at if unsent else None,
    )
