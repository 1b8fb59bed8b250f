"""API keys and key pairs: made by `create`, rotated by `rotate`."""
