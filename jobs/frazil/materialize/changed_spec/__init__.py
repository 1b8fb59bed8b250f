"""A spec that changed since its table was made: each difference, its fate, and the commits that follow it."""
