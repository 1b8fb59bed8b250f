"""`make demo`: materialize from a real broker, kill the job in the middle of a batch, and resume it."""
