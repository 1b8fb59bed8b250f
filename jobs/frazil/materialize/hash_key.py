"""The key of a table's hashes: recorded as a fingerprint, so that another key under the same id is refused.

With another key, equal values would get other hashes than before, and nothing in the rows would show it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace

from frazil.formats.masks.hashes import fingerprint
from frazil.model.errors import SettingError
from frazil.model.secret import NamedKey
from frazil.model.snapshot import TableView
from frazil.model.spec import TableSpec
from frazil.ports import Lake

HASH_KEY_PROPERTY = "frazil.hash-key"
"""A table property: JSON of the id of the key of the table's hashes, and of its fingerprint."""


def record_hash_key(lake: Lake, spec: TableSpec, view: TableView) -> TableView:
    """Record the key in a table that is to have hashes and does not name it yet. Raises SettingError, ServiceError."""
    key = spec.value_settings.hash_key or spec.key_settings.hash_key
    if key is None or _recorded(view.properties).get("id") == key.id:
        return view
    recorded = json.dumps({"id": key.id, "fingerprint": fingerprint(key)})
    lake.set_properties(spec.identifier, put={HASH_KEY_PROPERTY: recorded})
    return lake.load(spec.identifier) or view


def with_keys_read(spec: TableSpec, properties: Mapping[str, str]) -> TableSpec:
    """Return the spec with the keys of its policies looked up: tasks may not read them.

    `properties` are those of its table. Raises SettingError, also for another key of hashes, and ServiceError.
    """
    spec = replace(spec, erasure_key=None)
    if not spec.masked:
        return spec
    if spec.policies.hashes and spec.value_settings.hash_key is None:
        raise SettingError(
            f"{spec.identifier}: the table's hashes were made with the hash_key {spec.policies.hash_key}, which is not"
            " configured",
            hint=f"set `hash_key: {{id: {spec.policies.hash_key}, …}}` below `policies` in frazil.yaml, with the key"
            " that had this id",
        )
    values, keys, letters = spec.value_settings, spec.key_settings, spec.dead_letter_key
    return replace(
        spec,
        value_settings=replace(values, hash_key=_read(values.hash_key, spec, properties)),
        key_settings=replace(keys, hash_key=_read(keys.hash_key, spec, properties)),
        dead_letter_key=None if letters is None else letters.read(),
    )


def _read(key: NamedKey | None, spec: TableSpec, properties: Mapping[str, str]) -> NamedKey | None:
    if key is None:
        return None
    found, recorded = key.read(), _recorded(properties)
    had, has = recorded.get("fingerprint"), fingerprint(found)
    if recorded.get("id") == key.id and had != has:
        raise SettingError(
            f"{spec.identifier}: the hash_key {key.id} is not the key of the table's hashes: its fingerprint is"
            f" {has}, and the table's property {HASH_KEY_PROPERTY} has {had}",
            hint="restore the former value of the key in the file or secret that `policies` in frazil.yaml names; for"
            f" another key, give it another `id` and run `frazil rebuild {spec.identifier}`",
        )
    return found


def _recorded(properties: Mapping[str, str]) -> dict[str, str]:
    recorded: dict[str, str] = json.loads(properties.get(HASH_KEY_PROPERTY, "{}"))
    return recorded
