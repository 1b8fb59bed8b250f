"""Uploads artefacts for job runs. Keys contain content hashes, so existing artefacts are not uploaded again."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

from frazil.model.errors import ServiceError
from infra.artefacts.artefact import PREFIX, Artefact, Artefacts
from infra.artefacts.pack import path_of

KEPT = 5
"""How many versions of each file stay in the bucket."""

Progress = Callable[[Artefact, int], None]
"""Called for each artefact that is uploaded, with the number of bytes sent since the last call."""


def upload(artefacts: Artefacts, folder: Path, bucket: str, s3: Any, progress: Progress) -> list[Artefact]:
    """Send what the bucket does not have; which those were. `s3` is boto3's client.

    Raises ServiceError where the bucket refuses or does not answer.
    """
    sent = [artefact for artefact in artefacts.all if not _is_there(s3, bucket, artefact)]
    for artefact in sent:
        _send(s3, bucket, artefact, path_of(artefact, folder), progress)
    return sent


def sweep(artefacts: Artefacts, bucket: str, s3: Any) -> int:
    """Delete old artefacts but the newest `KEPT` of each file name; return how many went.

    Those of `artefacts` stay whatever their age: a run fetches them for each worker that it starts.
    """
    stay = {artefact.key for artefact in artefacts.all}
    there: dict[str, list[tuple[datetime, str]]] = {}
    for page in s3.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=f"{PREFIX}/"):
        for each in page.get("Contents", ()):
            there.setdefault(each["Key"].rsplit("/", 1)[-1], []).append((each["LastModified"], each["Key"]))
    old = [key for named in there.values() for _, key in sorted(named, reverse=True)[KEPT:] if key not in stay]
    for key in old:
        s3.delete_object(Bucket=bucket, Key=key)
    return len(old)


def _is_there(s3: Any, bucket: str, artefact: Artefact) -> bool:
    """Return whether the object exists, by listing: HEAD would answer `forbidden` for a missing key."""
    from botocore.exceptions import BotoCoreError, ClientError  # type: ignore[import-untyped]  # noqa: PLC0415

    try:
        listed = s3.list_objects_v2(Bucket=bucket, Prefix=artefact.key, MaxKeys=1)
    except (BotoCoreError, ClientError) as error:
        raise _refused(f"s3://{bucket}/{artefact.key} cannot be looked up", error) from error
    return any(
        each["Key"] == artefact.key and each["Size"] == artefact.size_bytes for each in listed.get("Contents", ())
    )


def _send(s3: Any, bucket: str, artefact: Artefact, file: Path, progress: Progress) -> None:
    from boto3.exceptions import S3UploadFailedError  # type: ignore[import-untyped]  # noqa: PLC0415
    from botocore.exceptions import BotoCoreError, ClientError  # noqa: PLC0415

    try:
        s3.upload_file(str(file), bucket, artefact.key, Callback=lambda count: progress(artefact, count))
    except (BotoCoreError, ClientError, S3UploadFailedError) as error:
        raise _refused(f"{file.name} cannot be sent to s3://{bucket}/{artefact.key}", error) from error


def _refused(what: str, error: Exception) -> ServiceError:
    return ServiceError(
        f"{what}: {error}",
        hint="run it again to continue; on AccessDenied, grant the named permission to the profile",
    )
