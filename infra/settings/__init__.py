"""The settings of an environment: their values, their keys, and the parser of their file."""
