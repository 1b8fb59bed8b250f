"""The key `policies` of an environment's file: the keys of masked columns, which are in secrets of your own."""

from __future__ import annotations

from collections.abc import Mapping

from frazil.specs.keys import Built, Key, Required, Section, Values
from frazil.specs.policy_keys import DEAD_LETTER_KEY, HASH_KEY, KEY_ID
from frazil.specs.scalars import TEXT
from infra.settings.model import PolicyKey
from infra.settings.snowflake_keys import NONE

SECRET = Key("secret", TEXT, "The secret with the key, as a field that has the name of this key.", Required())
POLICY_KEY = Built(Section((KEY_ID, SECRET), label="a key"), lambda values: PolicyKey(values[KEY_ID], values[SECRET]))
HASHES = Key(HASH_KEY.name, POLICY_KEY, HASH_KEY.description, HASH_KEY.default)
DEAD_LETTERS = Key(DEAD_LETTER_KEY.name, POLICY_KEY, DEAD_LETTER_KEY.description, DEAD_LETTER_KEY.default)


def policies_of(values: Values) -> Mapping[str, PolicyKey]:
    return {key.name: values[key] for key in (HASHES, DEAD_LETTERS) if values.is_given(key)}


POLICIES = Key(
    "policies",
    Built(Section((HASHES, DEAD_LETTERS)), policies_of),
    "The keys of column policies, in secrets that you create: the job may read them, and nothing here rotates them.",
    NONE,
)
