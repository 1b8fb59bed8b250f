"""The errors of the service's API."""

from __future__ import annotations


class Refusal(Exception):  # noqa: N818 - the subclasses have the names of the API
    """An error response with status 400 and the name of the class as its code."""

    status = 400


class ValidationException(Refusal):
    """A parameter of the request is invalid."""


class ConflictException(Refusal):
    """An earlier request with the same client token had other parameters."""

    status = 409


class ResourceNotFoundException(Refusal):
    """No such application, job run or attempt."""

    status = 404


class AccessDeniedException(Refusal):
    """The role belongs to another account."""

    status = 403
