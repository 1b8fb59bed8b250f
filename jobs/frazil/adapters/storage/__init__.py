"""The storage of the warehouse."""
