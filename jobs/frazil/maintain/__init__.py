"""Keeps tables small and readable between their batches: snapshots expire."""
