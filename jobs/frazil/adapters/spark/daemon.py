"""Spark's Python daemon, with everything that a task needs imported before its workers are forked from it.

A worker would import it by itself, at two seconds of CPU each (`spark.python.daemon.module`).
"""

from __future__ import annotations

from pyspark.daemon import manager

from frazil.adapters.spark import worker

if __name__ == "__main__":
    worker.trim()
    manager()
