"""Transformations: tables that follow another table through SQL or a function of DataFrames (docs/decisions/0051)."""
