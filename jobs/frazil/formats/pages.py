"""The pages about formats in docs/reference/, for `python -m frazil.cli.reference`."""

from __future__ import annotations

from collections.abc import Mapping

from frazil.formats.avro import page as avro
from frazil.formats.json_schema import page as json_schema
from frazil.formats.protobuf import page as protobuf


def pages() -> Mapping[str, str]:
    """Return the text of each page by its file's name."""
    return {
        "avro.md": avro.PAGE.text(),
        "json-schema.md": json_schema.PAGE.text(),
        "protobuf.md": protobuf.PAGE.text(),
    }
