"""The engines of the Kafka reader, as parameters of tests that hold for both."""

from __future__ import annotations

import pytest

from frazil.adapters.kafka.batch_consumer import why_not_native

NATIVE = pytest.param(
    "native",
    marks=pytest.mark.skipif(
        why_not_native() is not None, reason="the native reader is not built here (make setup builds it)"
    ),
)
ENGINES = (NATIVE, "python")
