"""What the serializers of the AWS Glue Schema Registry put before the data.

A byte 3, a byte that says how the data is compressed (0: not, 5: zlib), and the id of the schema version in 16 bytes.
"""

from __future__ import annotations

VERSION, PLAIN, ZLIB = 3, 0, 5
FRAME_BYTES = 18
"""The bytes before the data."""
MOST_INFLATED = 32 * 2**20
"""The most bytes that one payload may inflate to; decoding ends early once all of a call inflate to more."""
