"""docs/reference/avro.md, made from the verdicts."""

from __future__ import annotations

from frazil.formats.avro.verdicts import VERDICTS
from frazil.formats.verdict_page import VerdictPage

_REST = """
Iceberg has fewer types than writers: integers of 8, 16 and 32 bits are int, texts of any length are string, bytes of
any length are binary, and times and timestamps have microseconds. A change between types that become one column, such
as another maximum length, is no change of the table. Every column is optional, whatever the schema says.

More than 10,000 columns, and nesting deeper than 64 levels, or than 48 lists and maps, are refused.
"""

PAGE = VerdictPage(
    title="Which columns an Avro schema becomes",
    source="frazil.formats.avro.verdicts",
    introduction="""\
After this page you know the column of each Avro type, and which schemas are refused.
""",
    columns=("Avro", "Column", "More"),
    rows=tuple((each.avro, each.column, each.more) for each in VERDICTS),
    rest=_REST,
)
