"""Values that are secret, and the settings that may contain one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Secret:
    """A value that prints as `***`; read it with `reveal()`, as late as possible."""

    _value: str

    def __repr__(self) -> str:
        return "***"

    __str__ = __repr__

    def reveal(self) -> str:
        return self._value


@dataclass(frozen=True, slots=True)
class DeferredSecret:
    """A secret that is looked up at each use, because some processes that have the settings may not read it."""

    _look_up: Callable[[], Secret] = field(compare=False)

    def __repr__(self) -> str:
        return "***"

    __str__ = __repr__

    def read(self) -> Secret:
        """Return the value. Raises SettingError if the secret does not exist, ServiceError if it may not be read."""
        return self._look_up()


@dataclass(frozen=True, slots=True)
class NamedKey:
    """A key of 32 bytes, in base64, and the id by which tables name it. Only the id is ever written.

    `place` is the position in `frazil.yaml` that errors name.
    """

    id: str
    secret: Secret | DeferredSecret = field(compare=False)
    place: str = field(default="frazil.yaml", compare=False)

    def read(self) -> NamedKey:
        """Return the key with its value looked up, to hand it to other processes. Raises as `DeferredSecret.read`."""
        return NamedKey(self.id, self.secret.read(), self.place) if isinstance(self.secret, DeferredSecret) else self


SettingValue = str | Secret


def revealed(settings: Mapping[str, SettingValue]) -> dict[str, str]:
    """Return settings with secrets in plain text for a library. Do not keep the result after the call."""
    return {name: value.reveal() if isinstance(value, Secret) else value for name, value in settings.items()}
