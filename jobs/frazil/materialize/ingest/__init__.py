"""Offset ranges become data files that nobody knows yet: fetch → decode → write, inside Spark tasks."""
