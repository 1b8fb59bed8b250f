"""Why a rotation stops. Whatever it is, the key that was current stays so and works.

FrazilError
└── RotationError
    ├── DescriptionError       the tags of the secret or the settings of the function do not say what to rotate
    ├── WrongStageError        the version is not the one that is being rotated
    ├── SlotOccupiedError      somebody else's key is where the new one would go
    ├── NotProvenError         the new key does not work, or not yet
    └── RefusedError           the service refuses what the rotation asks, or does not answer
        └── LoginRefusedError
"""

from __future__ import annotations

from frazil.model.errors import FrazilError


class RotationError(FrazilError):
    """The root: nothing was promoted."""


class DescriptionError(RotationError):
    """Nobody can tell what is to be rotated."""


class WrongStageError(RotationError):
    """A step was asked for a version that is not labelled AWSPENDING."""


class SlotOccupiedError(RotationError):
    """A public key that never was in this secret is in the slot that would be overwritten."""


class NotProvenError(RotationError):
    """The new key was tried and did not work."""


class RefusedError(RotationError):
    """The service does not do it."""


class LoginRefusedError(RefusedError):
    """Snowflake says that the key is not this user's (390144); right after the key was set this may pass."""
