"""Rebuild a table from its topics, on a branch that takes the place of `main` in one commit."""
