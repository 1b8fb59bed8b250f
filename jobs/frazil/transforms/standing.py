"""How far a transformation has come, by the metadata of its tables alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from frazil.model.errors import FrazilError
from frazil.model.snapshot import TableView
from frazil.model.spelling import plural
from frazil.model.transforms import TransformSpec
from frazil.outputs.standing import OutputStanding, output_standing
from frazil.ports import Lake
from frazil.transforms.function import code_of
from frazil.transforms.send import outputs_by
from frazil.transforms.sources import kind_of
from frazil.transforms.unread import current_state, unread


@dataclass(frozen=True, slots=True)
class TransformStanding:
    """A transformation: the epoch of the followed table that it has read, and how many with rows it has not.

    `problem` is why it cannot continue. `epoch` is None before its first batch.
    """

    spec: TransformSpec
    epoch: int | None = None
    unread: int = 0
    outputs: tuple[OutputStanding, ...] = ()
    problem: str | None = None

    @property
    def problems(self) -> tuple[str, ...]:
        of_outputs = (each.problem for each in self.outputs)
        return tuple(each for each in (self.problem, *of_outputs) if each is not None)

    def lines(self) -> Iterator[str]:
        yield f"{self.spec.identifier}: {self}"
        for output in self.outputs:
            yield f"{self.spec.identifier}: {output}"

    def __str__(self) -> str:
        name = f"transform {self.spec.name}"
        if self.problem is not None:
            return f"{name} is halted: {self.problem}"
        if self.epoch is None:
            return f"{name} has not read {self.spec.source} yet"
        lacks = f"lacks {plural(self.unread, 'epoch')}" if self.unread else "lacks none"
        return f"{name} has read {self.spec.source} up to epoch {self.epoch}, and {lacks}"


def transform_standing(lake: Lake, spec: TransformSpec) -> TransformStanding:
    """Return how far a transformation has come. Raises CatalogError if the catalog or storage does not answer."""
    target, source = lake.load(spec.identifier), lake.load(spec.source)
    return TransformStanding(spec) if target is None or source is None else _of_tables(spec, target, source)


def _of_tables(spec: TransformSpec, target: TableView, source: TableView) -> TransformStanding:
    outputs: tuple[OutputStanding, ...] = ()
    try:
        state = current_state(target, spec, definition=spec.definition(code_of(spec)))
        outputs = tuple(output_standing(target, each) for each in outputs_by(spec, state.rows))
        news = unread(source, spec, state.position, changes=kind_of(spec, source).changes)
    except FrazilError as halted:
        return TransformStanding(spec, outputs=outputs, problem=halted.what)
    epoch = None if state.position is None else state.position.epoch
    return TransformStanding(spec, epoch, len(news.changed_by), outputs)
