"""Batches of a group of tables, which are read together (docs/decisions/0034-routes-of-one-spec.md)."""
