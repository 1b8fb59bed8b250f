"""What makes all rows of a table again, for the hints of errors."""

from __future__ import annotations

from frazil.model.spec import TableSpec


def can_be_rebuilt(spec: TableSpec) -> bool:
    """Return whether all rows can be made again in the same table: not in a group with routes."""
    return spec.group is None or spec.group.has_shapes


def read_again(spec: TableSpec) -> str:
    """Return the command that reads all records again, or what to do for a table of routes, which has none."""
    if can_be_rebuilt(spec):
        return f"run `frazil rebuild {spec.identifier}`"
    return "materialize the topic into other tables, by another spec"
