"""Pausing and resuming tables: the stored reason, and the batch that `resume` accepts."""
