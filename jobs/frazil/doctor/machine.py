"""Check the tools on this machine: Java, Spark and the native module."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import sys
from collections.abc import Iterator, Mapping

from frazil.adapters.kafka.batch_consumer import why_not_native
from frazil.doctor.asking import Asking
from frazil.doctor.finding import Finding, not_asked
from frazil.formats.native import native_available
from frazil.local.java import ACCEPTED, present_java
from frazil.model.errors import MissingToolError

SUBMITTED = "PYSPARK_GATEWAY_PORT"
"""Set by spark-submit, which has found a Java, so that Java needs no check."""


def look_at_machine(env: Mapping[str, str] = os.environ) -> Iterator[Finding]:
    asking = Asking("machine", seconds=60)
    yield asking.ask("Python", lambda: ".".join(map(str, sys.version_info[:3])))
    yield asking.ask("Spark", spark)
    if SUBMITTED in env:
        yield not_asked("machine", "Java", "Spark started this process, so Java is installed")
    else:
        yield asking.ask("Java", java)
    if native_available():
        yield Finding("machine", "native decoder", "ok", "built for this machine")
    else:
        found = "not installed: records are decoded in Python, to the same rows, more slowly"
        yield Finding("machine", "native decoder", "ok", found, "install Rust and run `make setup`, which builds it")
    problem = why_not_native()
    if problem is None:
        yield Finding("machine", "native reader", "ok", "fetches records with confluent-kafka's librdkafka")
    else:
        found = f"not used: {problem}; records are fetched in Python, at two to three times the CPU"
        yield Finding("machine", "native reader", "ok", found, "install confluent-kafka 2.3 or newer, and `make setup`")


def spark() -> str:
    """Return the version of PySpark. Raises MissingToolError if it is not installed."""
    if importlib.util.find_spec("pyspark") is None:
        raise MissingToolError("pyspark is not installed", hint="run `make setup`")
    try:
        return importlib.metadata.version("pyspark")
    except importlib.metadata.PackageNotFoundError:
        return "installed on the machine"


def java() -> str:
    """Return Java's version and folder. Raises MissingToolError if no supported version is installed."""
    found = present_java()
    if found is None:
        raise MissingToolError(
            f"Java {' or '.join(map(str, ACCEPTED))} is not installed",
            hint="set JAVA_HOME; otherwise `frazil local up` and `frazil materialize` install Java when they need it",
        )
    return f"{found.major} in {found.home}"
