"""The errors of a rotation. After each of them the current key stays current and works.

FrazilError
└── RotationError
    ├── DescriptionError       tags of the secret or settings of the function are missing or invalid
    ├── WrongStageError        the version is not the one being rotated
    ├── SlotOccupiedError      an unknown key occupies the slot for the new key
    └── NotProvenError         the new key does not work (yet)

Snowflake's refusals are the RefusedError of shared/snowflake_login.py; those of Confluent Cloud are ServiceErrors.
"""

from __future__ import annotations

from frazil.model.errors import FrazilError


class RotationError(FrazilError):
    """Base class of rotation errors; no version was promoted."""


class DescriptionError(RotationError):
    """A tag of the secret or a setting of the function is missing or invalid."""


class WrongStageError(RotationError):
    """A step was requested for a version that is not being rotated."""


class SlotOccupiedError(RotationError):
    """The slot for the new key holds a public key that was never in this secret."""


class NotProvenError(RotationError):
    """The new key was tested and does not work."""
