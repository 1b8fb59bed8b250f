"""Spark: its application, and the tasks on its executors."""
