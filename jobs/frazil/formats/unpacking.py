"""Decode the payloads of a group: after what their wire format put around the data is taken off."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from frazil.formats.decoder import Decoded, Decoder, Indexes, Payloads, chosen_payloads, in_one_array
from frazil.formats.framing import Group
from frazil.model.dead_letter import Reason, Reject
from frazil.model.glue_frame import MOST_INFLATED
from frazil.model.spelling import plural
from frazil.records import binary, value_ends

ALWAYS_INFLATED = 2**20
"""Any payload may inflate to so many bytes."""
MOST_TIMES = 100
"""Larger data may be at most so many times as long as its payload. Zlib compresses text to a tenth, and one repeated
byte to a thousandth: without this limit, a batch of such payloads would take minutes."""


def decode_group(decoder: Decoder, payloads: Payloads, group: Group) -> Decoded:
    """Decode payloads of the group with the decoder of its schema."""
    if group.is_compressed:
        return _decode_inflated(decoder, _inflated(in_one_array(payloads), group.header_bytes))
    if group.trailer_bytes:
        payloads = pc.binary_slice(in_one_array(payloads), 0, -group.trailer_bytes)
    return decoder.decode(_with_indexes(payloads, group.message), skip=group.header_bytes)


@dataclass(frozen=True, slots=True)
class DecodedPart:
    """Some values of a chunk, decoded: those at these `indexes`."""

    indexes: Indexes
    decoded: Decoded

    @property
    def good(self) -> Indexes:
        """The indexes of the values that are decoded."""
        return np.delete(self.indexes, [reject.index for reject in self.decoded.rejects])

    @property
    def rejects(self) -> dict[int, Reject]:
        """Those that are refused, by their index."""
        places = ((int(self.indexes[reject.index]), reject) for reject in self.decoded.rejects)
        return {index: reject.at(index) for index, reject in places}


def decode_in_parts(
    decoder: Decoder, values: pa.LargeBinaryArray, group: Group, chosen: Indexes
) -> Iterator[DecodedPart]:
    """Decode the values at the indexes `chosen`, which are those of the group, in as many parts as memory asks for."""
    while len(chosen):
        payloads = chosen_payloads(values, None if len(chosen) == len(values) else chosen)
        decoded = decode_group(decoder, payloads, group)
        yield DecodedPart(chosen[: decoded.taken], decoded)
        chosen = chosen[decoded.taken :]


def _with_indexes(payloads: Payloads, indexes: bytes) -> Payloads:
    """Return payloads after the message indexes of Protobuf that a header has, as decoders take them."""
    if not indexes:
        return payloads
    before, nothing = (pa.scalar(each, pa.large_binary()) for each in (indexes, b""))
    return pc.binary_join_element_wise(before, in_one_array(payloads), nothing)


@dataclass(slots=True)
class _Inflated:
    """The data of the payloads `kept`, by their indexes, of the first `taken` payloads; the others are rejects."""

    data: list[bytes] = field(default_factory=list)
    kept: list[int] = field(default_factory=list)
    rejects: list[Reject] = field(default_factory=list)
    taken: int = 0


def _inflated(payloads: pa.LargeBinaryArray, skip: int) -> _Inflated:
    found, size = _Inflated(), 0
    held, ends = memoryview(payloads.buffers()[2] or b""), value_ends(payloads).tolist()
    for index, (start, end) in enumerate(pairwise(ends)):
        if size > MOST_INFLATED:
            break
        data = _inflate(held[start + skip : end], index)
        found.taken = index + 1
        if isinstance(data, Reject):
            found.rejects.append(data)
        else:
            size += len(data)
            found.data.append(data)
            found.kept.append(index)
    return found


def _inflate(data: memoryview, index: int) -> bytes | Reject:
    """Return the data of one zlib stream. Not more than the limit is ever held, whatever the stream expands to."""
    stream, most = zlib.decompressobj(), most_inflated(len(data))
    try:
        found = stream.decompress(data, most + 1)
    except zlib.error as problem:
        return Reject(index, Reason.BAD_COMPRESSION, f"not a zlib stream: {problem}")
    if len(found) > most:
        return Reject(index, Reason.TOO_LARGE, _too_large(len(data), most))
    if not stream.eof:
        return Reject(index, Reason.BAD_COMPRESSION, "the data ends inside the zlib stream")
    if stream.unused_data:
        left = plural(len(stream.unused_data), "byte")
        return Reject(index, Reason.BAD_COMPRESSION, f"{left} after the end of the zlib stream")
    return found


def most_inflated(size: int) -> int:
    """Return the most bytes that a payload of this size may inflate to, whatever is around it."""
    return min(MOST_INFLATED, max(ALWAYS_INFLATED, MOST_TIMES * size))


def _too_large(size: int, most: int) -> str:
    times = f", {MOST_TIMES} times its {size:,}" if ALWAYS_INFLATED < most < MOST_INFLATED else ""
    return f"the data inflates to more than {plural(most, 'byte')}{times}"


def _decode_inflated(decoder: Decoder, inflated: _Inflated) -> Decoded:
    decoded = decoder.decode(binary(inflated.data))
    ended_early = decoded.taken < len(inflated.kept)
    taken = inflated.kept[decoded.taken] if ended_early else inflated.taken
    rejects = [reject for reject in inflated.rejects if reject.index < taken]
    rejects += [reject.at(inflated.kept[reject.index]) for reject in decoded.rejects]
    kept = np.array(inflated.kept, np.int64)
    without_row = decoded.without_row.among(kept)
    incomplete = tuple(each.among(kept) for each in decoded.incomplete)
    return replace(decoded, rejects=_in_order(rejects), without_row=without_row, incomplete=incomplete)


def _in_order(rejects: Sequence[Reject]) -> tuple[Reject, ...]:
    return tuple(sorted(rejects, key=lambda reject: reject.index))
