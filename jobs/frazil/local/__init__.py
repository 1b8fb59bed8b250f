"""Real services on this machine: a Kafka broker, a schema registry, and a double of AWS."""
