"""Decoders: turn payloads of one writer schema into Arrow columns. They import neither Spark nor Kafka."""
