"""Which accounts of AWS and Snowflake an environment is deployed to."""
