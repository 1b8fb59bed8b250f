"""Streams between a writer and storage, which count bytes and compute their SHA-256."""

from __future__ import annotations

import hashlib
import io
import zlib
from typing import Protocol

GZIP_LEVEL = 1
GZIP_WINDOW = 31
"""Zlib's window of 32 KB with a header of gzip, in which zlib leaves the time and the name of a file empty."""


class Output(Protocol):
    """An open file of the destination. What was written is durable after `close`, and gone after `abandon`."""

    def write(self, data: bytes, /) -> object: ...

    def close(self) -> object: ...

    def abandon(self) -> object: ...


class CountedStream(io.RawIOBase):
    """Passes bytes on to a file."""

    def __init__(self, output: Output) -> None:
        self._output = output
        self._hash = hashlib.sha256()
        self.size = 0

    def writable(self) -> bool:
        return True

    def write(self, data: object, /) -> int:
        view = memoryview(data)  # type: ignore[arg-type]  # Arrow writes buffers
        self._hash.update(view)
        self._output.write(bytes(view))
        self.size += view.nbytes
        return view.nbytes

    def tell(self) -> int:
        return self.size

    def close(self) -> None:
        if not self.closed:
            self._output.close()
        super().close()

    def abandon(self) -> None:
        """Close it without the file."""
        if not self.closed:
            self._output.abandon()
        super().close()

    @property
    def sha256(self) -> str:
        return self._hash.hexdigest()


class GzipStream:
    """Compresses what is written; the same bytes give the same file."""

    def __init__(self, stream: CountedStream) -> None:
        self._stream = stream
        self._compress = zlib.compressobj(GZIP_LEVEL, zlib.DEFLATED, GZIP_WINDOW)

    def write(self, data: bytes) -> None:
        self._stream.write(self._compress.compress(data))

    def finish(self) -> None:
        self._stream.write(self._compress.flush())
