"""docs/reference/protobuf.md, made from the verdicts."""

from __future__ import annotations

from frazil.formats.protobuf.verdicts import VERDICTS
from frazil.formats.verdict_page import VerdictPage

_REST = """
A schema is a file, and a record names one of its messages. Set `message` in the table spec if the file has several: by
default the first message of each schema makes the rows, and `frazil init` writes the message that most of the newest
records are. A schema with another message in front of the table's one pauses the table, whatever
`on_incompatible_schema` says, until the spec names the `message`. Records of other messages are dead letters
(`wrong_message`). A message that is nested in another one, behind a map, is refused as `message`: clients count its
index in two ways.

A known field with another wire type than the schema says is a dead letter (`bad_tag`), although Protobuf would skip it:
its value would be lost.

Every column is optional, whatever the schema says: rows from before a column was added have null in it.
"""

PAGE = VerdictPage(
    title="Which columns a Protobuf message becomes",
    source="frazil.formats.protobuf.verdicts",
    introduction="""\
After this page you know the column of each type of a Protobuf schema, and which schemas are refused.
""",
    columns=("Protobuf", "Column", "More"),
    rows=tuple((each.protobuf, each.column, each.more) for each in VERDICTS),
    rest=_REST,
)
