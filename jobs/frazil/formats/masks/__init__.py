"""Columns and their values after the policies of a table spec, applied before anything is written."""
