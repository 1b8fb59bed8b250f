"""What makes all rows of a table again, for the hints of errors."""

from __future__ import annotations

from frazil.model.spec import TableSpec


def read_again(spec: TableSpec) -> str:
    """Return the command that reads all records again, or what to do for a table of a group, which has none."""
    if spec.group is None:
        return f"run `frazil rebuild {spec.identifier}`"
    return "materialize the topic into other tables, by another spec"
