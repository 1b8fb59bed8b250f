"""Decoders: payload bytes of one writer schema become Arrow columns. Plain functions, no Spark, no Kafka."""
