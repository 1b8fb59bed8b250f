"""docs/reference/json-schema.md, made from the verdicts."""

from __future__ import annotations

from frazil.formats.json_schema.verdicts import VERDICTS
from frazil.formats.verdict_page import VerdictPage

_REST = """
- **Null.** A property that a record lacks is null, and `null` is accepted for every property, as every column is
  optional.
- **Constraints** such as `required`, `minimum`, `maxLength` or `pattern` have no effect. They decide about no
  column, so that a schema with another constraint is no change of the table, and a record that breaks one is a row.
- **Types are checked.** A record with a value of another type than its column is a dead letter, and so is one with
  a date that does not exist, a time without a zone, an integer beyond 64 bits, or a key twice in one object. In
  drafts from 6 on, 1.0 is an integer; in draft 4 it is not.
- **Times** are stored in UTC. Digits below the microsecond are cut, and counted in the receipt.
- **`_extra`** holds the fields of a record that its schema does not declare, as the JSON text of an object by their
  paths: `{"nick":"x","lines[2].note":[1,2]}`. A name with a dot, a bracket or a quotation mark is quoted in its
  path. The column is null if there are none, and receipts count them. Every table of objects has it, also if
  `additionalProperties` is false, since producers need not validate.
- **JSON text** is the value as it was written, without the white space between its tokens.
- **Names.** Characters other than letters, digits and `_` become `_` in the name of a column.
- **References** to other subjects are found by their names in the registry, or by the `$id` of the referenced
  schema. Nothing is fetched from elsewhere.
- **Refused**, with the paths of all findings: names that differ only in case, or that become the same column, such as
  `e-mail` and `e_mail`, also if another schema of the table has the other name; a property at the top whose column is
  `_extra`; more than 10,000 columns; nesting deeper than 64 levels, or than 48 lists and maps; a `$ref` to nothing.
"""

PAGE = VerdictPage(
    title="Which columns a JSON Schema becomes",
    source="frazil.formats.json_schema.verdicts",
    introduction="""\
After this page you know the column of each kind of JSON Schema, and what becomes of fields that no schema declares.

The drafts 4, 6, 7, 2019-09 and 2020-12 are read; a schema without `$schema` is read as draft 7.
""",
    columns=("JSON Schema", "Column"),
    rows=tuple((each.schema, each.column.replace("<", "&lt;")) for each in VERDICTS),
    rest=_REST,
)
