"""The hash of an erased value, which the table keeps so that its records do not come back (docs/decisions/0070)."""

from __future__ import annotations

from dataclasses import dataclass

from frazil.formats.masks.erased import erased_hash
from frazil.formats.masks.hashes import fingerprint
from frazil.materialize.changed_spec.applied_spec import as_applied
from frazil.materialize.schema.former_names import former_names_of, former_paths
from frazil.materialize.state import Standing
from frazil.model.erasures import ErasedHash, ReadBefore, erased_hashes, with_hash
from frazil.model.secret import NamedKey
from frazil.model.spec import TableSpec
from frazil.model.traces import SoughtValue
from frazil.ports import Lake


@dataclass(frozen=True, slots=True)
class HashKeeping:
    """Whether a table keeps a hash of a value that is erased. `key` makes it; `why_not` says why none is kept."""

    key: NamedKey | None
    why_not: str = ""

    @staticmethod
    def of(spec: TableSpec, here: Standing, sought: SoughtValue) -> HashKeeping:
        """Decide it. Raises SettingError and ServiceError if the key cannot be read."""
        applied = as_applied(spec, here.view.properties)
        if spec.erasure_key is None:
            return HashKeeping(None, "no hash_key is configured below `policies` in frazil.yaml")
        if all(each.name_now != sought.column for each in sought.columns):
            return HashKeeping(None, f"no column has the name {sought.column} now")
        if applied.follows_keys and not applied.is_in_identity(sought.column):
            return HashKeeping(None, f"{sought.column} is no identity: another row of the key would come back instead")
        key = spec.erasure_key.read()
        others = {each.key for each in erased_hashes(here.view.properties) if not each.is_by(key.id, fingerprint(key))}
        if others:
            return HashKeeping(None, f"it has hashes by another hash_key, {', '.join(sorted(others))}")
        return HashKeeping(key)

    def keep(self, lake: Lake, spec: TableSpec, here: Standing, sought: SoughtValue) -> None:
        """Let the table know the value by its hash, and how far its topics were read. Raises CommitError."""
        if self.key is None:
            return
        value = next(each.value for each in sought.columns if each.name_now == sought.column)
        read = {
            source.topic: ReadBefore(source.generation, {n: each.next for n, each in source.partitions.items()})
            for source in here.state.sources
        }
        properties = here.view.properties
        former = former_paths(sought.column, former_names_of(properties))
        new = ErasedHash(sought.column, self.key.id, fingerprint(self.key), erased_hash(value, self.key), read, former)
        put = with_hash(properties, new)
        if any(properties.get(name) != text for name, text in put.items()):
            lake.set_properties(spec.identifier, put=put)
