"""Topics, rights in Confluent Cloud and job runs, derived from the settings and the table specs."""
