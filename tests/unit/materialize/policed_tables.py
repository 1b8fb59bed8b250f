"""Specs with policies, and their keys."""

from __future__ import annotations

import base64
from typing import Any

from values_of_tables import spec

from frazil.model.policed import policed
from frazil.model.policies import Policies, Policy
from frazil.model.secret import NamedKey, Secret
from frazil.model.spec import MetadataColumns, TableSpec

HASH_BYTES = bytes(range(32))
HASH_KEY = NamedKey("h1", Secret(base64.b64encode(HASH_BYTES).decode()))
LETTER_KEY = NamedKey("d1", Secret(base64.b64encode(bytes(range(32, 64))).decode()))
NO_KEY = MetadataColumns(keep=("partition", "offset", "timestamp", "schema_id"))

HASH, REDACT, DROP, KEEP = Policy("hash"), Policy("redact"), Policy("drop"), Policy("none")


def truncate(length: int) -> Policy:
    return Policy("truncate", length)


def masked(columns: dict[str, Policy], tags: dict[str, Policy] | None = None, **more: Any) -> TableSpec:
    policies = Policies(tuple(sorted(columns.items())), tuple((tags or {}).items()))
    if policies.hashes:
        policies = Policies(policies.columns, policies.tags, HASH_KEY.id)
    plain = spec(**{"metadata": NO_KEY, **more})
    return policed(plain, policies, hash_key=HASH_KEY, dead_letter_key=LETTER_KEY)
