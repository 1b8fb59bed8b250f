"""What the service refuses, as its API tells it."""

from __future__ import annotations


class Refusal(Exception):  # noqa: N818 - its subclasses are named as in the API
    """An answer with status 400 and the name of the class."""

    status = 400


class ValidationException(Refusal):
    """The request asks for what cannot be."""


class ConflictException(Refusal):
    """Another request with the same client token asked for something else."""

    status = 409


class ResourceNotFoundException(Refusal):
    """No such application, job run or attempt."""

    status = 404


class AccessDeniedException(Refusal):
    """The role is another account's."""

    status = 403
