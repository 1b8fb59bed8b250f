"""Check that each transformation can continue, and its outputs, from the metadata of its tables only."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from frazil.doctor.finding import Finding, failed
from frazil.model.errors import CatalogError
from frazil.model.transforms import TransformSpec
from frazil.ports import Lake
from frazil.transforms.standing import transform_standing


def look_at_transforms(specs: Sequence[TransformSpec], lake: Lake) -> Iterator[Finding]:
    for spec in specs:
        what = f"transform {spec.name}"
        try:
            found = transform_standing(lake, spec)
        except CatalogError as problem:
            yield failed("tables", what, problem)
            continue
        hint = f"run `frazil explain {spec.name}`; docs/transforms.md, if a transformation halts"
        yield _finding(what, str(found), found.problem, hint)
        for output in found.outputs:
            yield _finding(
                f"output {output.name} of {spec.identifier}",
                str(output),
                output.problem,
                "see docs/outputs.md, if an output fails",
            )


def _finding(what: str, found: str, problem: str | None, hint: str) -> Finding:
    return Finding("tables", what, "ok" if problem is None else "failed", found, "" if problem is None else hint)
