"""Replay dead letters: those that can be decoded now become rows."""
