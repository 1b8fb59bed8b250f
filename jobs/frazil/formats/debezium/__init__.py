"""Change events of Debezium: what its types mean, and which change of a table each event is."""
