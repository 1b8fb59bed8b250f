"""Erase a value from a table: rows, dead letters, and everything that keeps them (docs/decisions/0064)."""
