"""The variables with the addresses of doubles, which must be on this machine because keys are sent there."""

from __future__ import annotations

CONFLUENT_URL = "FRAZIL_CONFLUENT_URL"
"""The address of a double of all of Confluent Cloud."""
SNOWFLAKE_URL = "FRAZIL_SNOWFLAKE_URL"
"""The address of a double of Snowflake's login."""
