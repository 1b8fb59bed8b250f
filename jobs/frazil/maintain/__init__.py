"""Table maintenance between batches: expire snapshots."""
