"""Avro: writer schemas to columns, payloads to Arrow."""
