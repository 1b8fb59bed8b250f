"""The Avro format: map writer schemas to columns, and decode payloads to Arrow."""
