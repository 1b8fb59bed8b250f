"""JSON Schema as a value format."""
