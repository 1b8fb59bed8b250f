"""JSON of Kafka Connect's converter with `schemas.enable`: each record has its schema beside its payload."""
