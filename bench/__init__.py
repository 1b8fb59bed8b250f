"""Benchmarks: reproducible by one command, ratios within one run. Nothing here is a timed test."""
