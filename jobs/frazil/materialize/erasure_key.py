"""The key of the hashes of erased values: needed where records are read again (docs/decisions/0070)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from frazil.formats.masks.hashes import fingerprint
from frazil.materialize.schema.former_names import FormerNames, present_path
from frazil.model.erasures import ErasedHash
from frazil.model.errors import SettingError
from frazil.model.secret import NamedKey
from frazil.model.spec import TableSpec


def read_erasure_key(spec: TableSpec, hashes: Sequence[ErasedHash], former_names: FormerNames) -> NamedKey | None:
    """Return the key of hashes of erased values, looked up; None without hashes.

    Raises SettingError if it is not the configured one, or if rows without such values would have others follow from
    them, and ServiceError.
    """
    if not hashes:
        return None
    _check_identity(spec, hashes, former_names)
    key = None if spec.erasure_key is None else spec.erasure_key.read()
    has = None if key is None else (key.id, fingerprint(key))
    other = next((each for each in hashes if has is None or not each.is_by(*has)), None)
    if other is None:
        return key
    found = "none is configured" if has is None else f"it is {has[0]}, with the fingerprint {has[1]}"
    raise SettingError(
        f"{spec.identifier}: records are read again, and among them may be those that `frazil forget` erased: the table"
        f" knows these by hashes with the hash_key {other.key}, with the fingerprint {other.fingerprint}, and {found}",
        hint=f"set `hash_key: {{id: {other.key}, …}}` below `policies` in frazil.yaml, with the key that had this id",
    )


def _check_identity(spec: TableSpec, hashes: Sequence[ErasedHash], former_names: FormerNames) -> None:
    """Raise SettingError for values that were erased before the table came to follow keys: earlier rows would show."""
    if not spec.follows_keys:
        return
    named = replace(spec, identity=tuple(present_path(each, former_names) for each in spec.identity))
    for each in hashes:
        column = present_path(each.column, former_names)
        if not named.is_in_identity(column):
            raise SettingError(
                f"{spec.identifier}: records are read again, and a value of {column} was erased, which is not in the"
                f" identity, {' or '.join(spec.identity_paths)}: without its records, the table would show other rows"
                " of their keys",
                hint=f"keep the former `write` and `cdc`; or give the spec a new `table`; or remove the property"
                f" {each.name} in another engine, rebuild, and erase the keys of these rows",
            )
