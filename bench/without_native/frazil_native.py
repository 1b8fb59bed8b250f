"""Stands before the native decoder on the path of a subject: a machine where it was not built."""

raise ImportError("the fallback is measured")
