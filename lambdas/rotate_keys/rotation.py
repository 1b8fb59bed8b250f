"""The four steps of a rotation, and the first key, for every kind of key.

    createSecret   a new value is made and kept as the pending version, before anybody else knows it
    setSecret      the service learns the new key, beside the current one
    testSecret     the new key is used
    finishSecret   it is used once more, then promoted; what has become too old is retired

Each step looks at what is true and makes true what is missing, so that Secrets Manager may repeat all of them from the
start, which is what it does after a failure. A step keeps nothing in memory for the next one.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, cast, get_args

from frazil.model.secret import Secret
from lambdas.rotate_keys.errors import DescriptionError, NotProvenError, WrongStageError
from lambdas.rotate_keys.vault import CURRENT, PENDING, PREVIOUS, Description, Vault

Step = Literal["createSecret", "setSecret", "testSecret", "finishSecret"]
FIRST_KEY_HINT = "invoke the function with the Step firstKey for this secret, which creates the first key"

Facts = Mapping[str, str]
"""The facts about a step that may be logged: ids, slots, fingerprints, never a secret."""


@dataclass(frozen=True, slots=True)
class Versions:
    """What is in a secret while its key is rotated. `older` reads what else is still there, the newest first.

    `pending` is what another rotation is making. `confirm` looks whether all of this is still so, for the moment
    before something is overwritten or deleted. It raises WrongStageError where another rotation came in between.
    """

    new: Secret
    current: Secret | None
    previous: Secret | None
    pending: Secret | None
    older: Callable[[], Iterator[Secret]]
    confirm: Callable[[], None]


class Kind(Protocol):
    """What differs between kinds of keys. Every act may be repeated."""

    def holds_key(self, value: Secret) -> bool:
        """Return whether the rotation wrote this value, rather than an initial placeholder."""

    def is_known(self, value: Secret) -> bool:
        """Return whether a key can still be valid: some are deleted together with what they opened."""

    def make(self, *, version: str, current: Secret | None) -> Secret:
        """Make a new value. Nothing is deleted: another call may be making or using the same version's key."""

    def tidy(self, *, version: str, kept: Sequence[Secret]) -> Facts:
        """Remove what calls before made for the version and did not keep. `kept`: the values of labelled versions."""

    def discard(self, made: Secret) -> Facts:
        """Undo `make`: another value was kept for the version."""

    def install(self, versions: Versions) -> Facts:
        """Install the new key in the service; the current one stays valid."""

    def prove(self, new: Secret) -> Facts:
        """Use the new key. Raises NotProvenError where it does not work."""

    def retire(self, versions: Versions) -> Facts:
        """Take away what is too old, after the promotion: `new` and `current` are the same by now."""

    def revoke(self, versions: Versions) -> Facts:
        """Take away all but the new key, however young the others are: one of them is in wrong hands."""

    def public(self, value: Secret) -> Facts:
        """Return the public facts of a key: its public half or its id."""

    def installed(self, current: Secret | None) -> Facts:
        """Return what the service should hold for the current key to work, for Terraform."""


@dataclass(frozen=True, slots=True)
class Rotation:
    """Of the key in one secret."""

    vault: Vault
    kind: Kind

    def take(self, step: Step, version: str) -> Facts:
        """Carry out one step. Raises WrongStageError if this version is not being rotated."""
        described = self.vault.describe()
        _refuse_wrong_stage(described, version)
        match step:
            case "createSecret":
                return self._create(version)
            case "setSecret":
                return self.kind.install(self._versions(described, version))
            case "testSecret":
                return self._test(described, version)
            case "finishSecret":
                return self._finish(described, version)

    def first_key(self) -> Facts:
        """The public half of the current key, which is made where there is none yet, or none that can still work.

        Two calls at once make one key: both store it as the same version, and the first to come stays.
        """
        described, current = self.vault.describe(), self.vault.current()
        if current is not None and self.kind.holds_key(current) and self.kind.is_known(current):
            return {"made": "no", **self.kind.public(current)}
        instead_of = described.version_with(CURRENT) or ""
        version = str(uuid.uuid5(uuid.NAMESPACE_URL, f"{described.arn}#first-key#{instead_of}"))
        made = self.kind.make(version=version, current=current)
        if self.vault.keep(version, made, stage=CURRENT):
            self.kind.tidy(version=version, kept=self._labelled())
            return {"made": "yes", **self.kind.public(made)}
        self._discard(made)
        return {"made": "no", **self.kind.public(self._kept(version))}

    def installed_keys(self) -> Facts:
        """Return what the service should hold for the key in the secret to work; changes nothing."""
        current = self.vault.current()
        return self.kind.installed(current if current is not None and self.kind.holds_key(current) else None)

    def prove_current(self) -> Facts:
        """Use the key that readers get. Raises NotProvenError where it does not work."""
        current = self.vault.current()
        if current is None or not self.kind.holds_key(current):
            raise NotProvenError(f"The secret {self.vault.secret} holds no key", hint=FIRST_KEY_HINT)
        return self.kind.prove(current)

    def revoke_others(self) -> Facts:
        """Revoke all keys but the current one. Raises NotProvenError if the current key does not work."""
        self.prove_current()
        described = self.vault.describe()
        return self.kind.revoke(self._versions(described, described.version_with(CURRENT) or ""))

    def _test(self, described: Description, version: str) -> Facts:
        """Secrets Manager tests when a rotation is switched on, too, with what is current: maybe nothing, or a key that
        opens nothing yet. That the function can be called is all there is to see then.
        """
        is_current = CURRENT in described.stages[version]
        if not is_current and self.vault.value(version) == self.vault.current():
            return {"made": "before"}
        return self.kind.prove(self._kept(version))

    def _create(self, version: str) -> Facts:
        """Create a version's value. The first stored value stays; a later call deletes only the key that it created."""
        if self.vault.value(version) is not None:
            return {"made": "before", **self.kind.tidy(version=version, kept=self._labelled())}
        made = self.kind.make(version=version, current=self.vault.current())
        if not self.vault.keep(version, made, stage=PENDING):
            return {"made": "meanwhile", **self._discard(made)}
        self.kind.tidy(version=version, kept=self._labelled())
        return {"made": "now", **self.kind.public(made)}

    def _finish(self, described: Description, version: str) -> Facts:
        """Test the key again, then promote it: steps called in another order must not promote a failing key."""
        if CURRENT not in described.stages[version]:
            self.kind.prove(self._kept(version))
            self.vault.promote(version, instead_of=described.version_with(CURRENT))
        return self.kind.retire(self._versions(self.vault.describe(), version))

    def _kept(self, version: str) -> Secret:
        value = self.vault.value(version)
        if value is None:
            raise WrongStageError(
                f"Version {version} of {self.vault.secret} has no value: createSecret must run first",
                hint="let Secrets Manager run the steps: `aws secretsmanager rotate-secret --secret-id …`",
            )
        return value

    def _discard(self, made: Secret) -> Facts:
        return {} if made in self._labelled() else self.kind.discard(made)

    def _labelled(self) -> list[Secret]:
        """The values of all versions that have a label at this moment."""
        values = (self.vault.value(version) for version in self.vault.describe().stages)
        return [value for value in values if value is not None and self.kind.holds_key(value)]

    def _versions(self, described: Description, version: str) -> Versions:
        return Versions(
            new=self._kept(version),
            current=self._with_stage(described, CURRENT),
            previous=self._with_stage(described, PREVIOUS),
            pending=self._with_stage(described, PENDING),
            older=self.vault.older,
            confirm=lambda: self._confirm(described),
        )

    def _confirm(self, described: Description) -> None:
        if self.vault.describe().stages != described.stages:
            raise WrongStageError(
                f"Another rotation of {described.name} ran at the same time", hint="Secrets Manager retries this one"
            )

    def _with_stage(self, described: Description, stage: str) -> Secret | None:
        """Return the value with this stage, or None if it is missing or is not a key of ours."""
        version = described.version_with(stage)
        value = self.vault.value(version) if version else None
        return value if value is not None and self.kind.holds_key(value) else None


def step_of(name: str) -> Step:
    """Return the step with this name. Raises DescriptionError for an unknown one."""
    for step in get_args(Step):
        if name == step:
            return cast("Step", step)
    raise DescriptionError(f"unknown step {name}: expected one of {', '.join(get_args(Step))}", hint=FIRST_KEY_HINT)


def _refuse_wrong_stage(described: Description, version: str) -> None:
    """A version that is current already may go through all steps again: its finish may have died half way."""
    stages = described.stages.get(version)
    if stages is None or not {PENDING, CURRENT} & stages:
        found = "no such version" if stages is None else f"the labels {sorted(stages) or 'none'}"
        raise WrongStageError(
            f"Version {version} of {described.name} is not being rotated: expected the label {PENDING}, found {found}",
            hint="another rotation replaced it; `aws secretsmanager describe-secret` shows which",
        )
