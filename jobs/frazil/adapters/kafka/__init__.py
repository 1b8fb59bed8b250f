"""Kafka, through librdkafka."""
