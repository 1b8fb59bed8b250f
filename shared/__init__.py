"""What the stacks (infra/) and the functions (lambdas/) share: names, accounts, tags, Confluent Cloud and Snowflake."""
