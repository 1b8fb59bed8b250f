"""JSON texts as rows: the shape of a value, and its decoders. Nothing here knows schemas."""
