"""Decode the payloads of a group: after what their wire format put around the data is taken off."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from frazil.formats.decoder import Decoded, Decoder
from frazil.formats.framing import Group


def decode_group(decoder: Decoder, payloads: pa.LargeBinaryArray, group: Group) -> Decoded:
    """Decode payloads of the group, none of them null, with the decoder of its schema."""
    return decoder.decode(_with_indexes(payloads, group.message), skip=group.header_bytes)


def _with_indexes(payloads: pa.LargeBinaryArray, indexes: bytes) -> pa.LargeBinaryArray:
    """Return payloads after the message indexes of Protobuf that a header has, as decoders take them."""
    if not indexes:
        return payloads
    before, nothing = (pa.scalar(each, pa.large_binary()) for each in (indexes, b""))
    return pc.binary_join_element_wise(before, payloads, nothing)
