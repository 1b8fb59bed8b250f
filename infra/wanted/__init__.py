"""What the settings and the table specs ask for together: topics, rights in Confluent Cloud, and job runs."""
