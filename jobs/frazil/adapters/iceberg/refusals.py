"""What the errors of a catalog and its storage mean: whether a retry can help, and what to do."""

from __future__ import annotations

import re

from pyiceberg.exceptions import ForbiddenError, UnauthorizedError

FORBIDDEN = ("AccessDenied", "ACCESS_DENIED", "Forbidden", "Permission denied", "readonly database", "Read-only file")
IN_THE_WAY = ("Not a directory", "File exists", "unable to open database file", "file is not a database")
NO_BUCKET = ("NoSuchBucket", "NO_SUCH_BUCKET")
MAKES_NO_TABLES = re.compile(r"(?i)stage.?create|missing string: location|location information cannot be null")
"""What the REST endpoints of AWS Glue and S3 Tables say to a table that is made together with its first snapshot."""


def is_lasting(problem: Exception) -> bool:
    """Return whether a retry cannot help: no access, a file in the way, no such bucket, or not a database."""
    refused = isinstance(problem, ForbiddenError | PermissionError | NotADirectoryError | FileExistsError)
    refused = refused or MAKES_NO_TABLES.search(str(problem)) is not None
    return refused or any(word in str(problem) for word in (*FORBIDDEN, *IN_THE_WAY, *NO_BUCKET))


def hint_for(problem: Exception) -> str:
    """Return the hint of the error that a failure of catalog or storage becomes."""
    said = str(problem)
    if isinstance(problem, UnauthorizedError):
        return "check how `catalog` in frazil.yaml authenticates: client_id and client_secret, token, or signing_name"
    if isinstance(problem, ForbiddenError):
        return "grant the missing privilege to the catalog's client that `catalog` in frazil.yaml names"
    if MAKES_NO_TABLES.search(said):
        return "this catalog makes no table together with its first state: use `catalog.type: glue` or another catalog"
    if any(word in said for word in FORBIDDEN):
        return "grant the missing permission: `frazil doctor` shows the AWS identity and the permission"
    if any(word in said for word in IN_THE_WAY):
        return "move away what is in the way, or change `catalog.warehouse` in frazil.yaml"
    return "check `catalog` in frazil.yaml, the credentials and the network, then run `frazil check`"
