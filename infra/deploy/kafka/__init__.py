"""Topics, service accounts and brokers."""
