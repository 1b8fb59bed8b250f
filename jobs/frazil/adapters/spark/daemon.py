"""Spark's Python daemon, with everything that a task needs imported before its workers are forked from it.

A worker would import it by itself, at two seconds of CPU each (`spark.python.daemon.module`).
"""

from __future__ import annotations

from contextlib import suppress

from pyspark.daemon import manager

if __name__ == "__main__":
    with suppress(ImportError):  # the tasks fail with it as well, and what a task says reaches the driver
        from frazil.adapters.spark import worker

        worker.trim()
    manager()
