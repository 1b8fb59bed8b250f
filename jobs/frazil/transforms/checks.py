"""What would prevent the next batch of a transformation, or its output topics (`frazil check`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from frazil.model.errors import FrazilError
from frazil.model.transforms import TransformTable
from frazil.outputs.checks import check_schemas, check_topic
from frazil.outputs.records import shape_of
from frazil.transforms.preview import Preview, preview
from frazil.transforms.run import Transformation
from frazil.transforms.send import outputs_by


def problems(made: Transformation) -> Iterator[FrazilError]:
    """Yield what would prevent the next batch, or its records. Nothing is sent or registered."""
    try:
        found = preview(made)
    except FrazilError as problem:
        yield problem
        return
    if found.halted is not None:
        yield found.halted
    yield from _of_outputs(made, found)


def _of_outputs(made: Transformation, found: Preview) -> Iterator[FrazilError]:
    if made.sending is None or not made.spec.outputs:
        return
    clients, table = made.sending.clients(), TransformTable(made.spec, found.query.rows)
    for output in outputs_by(made.spec, found.query.rows):
        yield from _raised(lambda output=output: check_topic(clients.topics, table, output))  # type: ignore[misc]
        yield from _raised(
            lambda output=output: check_schemas(  # type: ignore[misc]
                clients.schemas, table, output, shape_of(table, output, found.query.columns)
            )
        )


def _raised(act: Callable[[], None]) -> Iterator[FrazilError]:
    try:
        act()
    except FrazilError as problem:
        yield problem
