"""Rules that every synthesized stack must keep."""
