"""The tags of a secret that say whose key is in it.

tag                         kind                meaning
frazil-rotates              both                snowflake_rsa or confluent_api_key
frazil-user                 snowflake_rsa       the user, upper case
frazil-rotator-secret       snowflake_rsa       the secret of the user who may change this user; none: itself
frazil-account              confluent_api_key   the account, a word of shared/naming.py
frazil-owner                confluent_api_key   its id in Confluent Cloud, sa-…
"""

from __future__ import annotations

KIND_TAG = "frazil-rotates"
USER_TAG, ROTATOR_TAG = "frazil-user", "frazil-rotator-secret"
ACCOUNT_TAG, OWNER_TAG = "frazil-account", "frazil-owner"
