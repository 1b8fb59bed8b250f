"""Manifests and manifest lists with the same Avro schema share one reader.

PyIceberg makes the reader of each file anew from the schema in its header, and a reader of the header, which takes 1 ms
of CPU, ten times as long as reading a small manifest. Frazil reads the list and some of its manifests in each batch,
and all of them in a proof. PyIceberg takes no class of Avro files as an argument, so this one replaces its own where
manifests are read.
"""

from __future__ import annotations

from typing import cast

from pyiceberg import manifest as library
from pyiceberg.avro.decoder import BinaryDecoder, new_decoder
from pyiceberg.avro.file import META_SCHEMA, AvroFile, AvroFileHeader, D
from pyiceberg.avro.reader import DoubleReader, Reader
from pyiceberg.avro.resolver import construct_reader, resolve_reader
from pyiceberg.schema import Schema

from frazil.adapters.iceberg.recent import Recent

SCHEMA_CHARACTERS_KEPT = 4 << 20
"""The schema of manifests has about 5,000 characters, and each partition spec has its own."""

_known: Recent[tuple[Schema | None, Schema, Reader]] = Recent(SCHEMA_CHARACTERS_KEPT)
"""The wanted schema, a file's schema and their reader, by the identity of the first and the text of the second."""

_HEADERS = construct_reader(META_SCHEMA, {-1: AvroFileHeader})
"""All Avro files have the same header."""


class ManifestAvroFile(AvroFile[D]):
    """The library's Avro file of manifests, with a reader that is made once for each schema. Readers hold no state.

    The library reads each of its schemas as the same types, so the schema that is wanted tells them too.
    """

    __slots__ = ()

    def __enter__(self) -> ManifestAvroFile[D]:
        with self.input_file.open() as opened:
            self.decoder = new_decoder(opened.read())
        self.header = self._read_header()
        wanted, text = self.read_schema, self.header.meta.get("avro.schema", "")
        key = f"{id(wanted)} {text}"
        known = _known.get(key)
        if known is None or known[0] is not wanted:
            schema = self.header.get_schema()
            known = (wanted, schema, resolve_reader(schema, wanted or schema, self.read_types, self.read_enums))
            _known.put(key, known, weight=len(key))
        _, self.schema, self.reader = known
        return self

    def _read_header(self) -> AvroFileHeader:
        return cast(AvroFileHeader, _HEADERS.read(self.decoder))


def _read_double(_: DoubleReader, decoder: BinaryDecoder) -> float:
    """Read as decoders in Python do: the compiled one of PyIceberg 0.12.0 rounds a double to 4 bytes.

    Partition values that are read are written again, by each commit that removes a file of the same manifest.
    """
    return BinaryDecoder.read_double(decoder)


def share_readers() -> None:
    """Patch PyIceberg in this process to share the readers of manifests, and to read doubles. Idempotent."""
    DoubleReader.read = _read_double  # type: ignore[assignment, method-assign]
    library.AvroFile = ManifestAvroFile  # type: ignore[attr-defined]
