"""Empties what Terraform cannot delete while something is in it, and removes what services made beside it.

A bucket with versions: every version and delete marker, and every upload that was never finished. Log groups that a
Lambda made again with its last words after Terraform had removed them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from frazil.model.errors import ServiceError

Progress = Callable[[int], None]
"""Told of each portion: how many objects more are gone."""


class NotEmptyError(ServiceError):
    """Objects are in a bucket that S3 does not remove: a retention, or a policy that denies it."""


def empty_bucket(s3: Any, bucket: str, progress: Progress) -> int:
    """Remove every version of every object; how many there were. Nothing is done where there is no such bucket.

    `s3` is boto3's client. Raises NotEmptyError with the first key that cannot be removed.
    """
    if not _exists(s3, bucket):
        return 0
    _abort_uploads(s3, bucket)
    removed = 0
    for page in s3.get_paginator("list_object_versions").paginate(Bucket=bucket):
        removed += _remove(s3, bucket, list(_versions(page)), progress)
    return removed


def remove_databases(glue: Any, bucket: str, *, cluster: str = "") -> list[str]:
    """Remove the databases of Glue that lie in the bucket, and Tableflow's of the cluster; return their names.

    Terraform has one of them at most: a cluster that went while its tables stayed left another (`--keep-data`).
    """
    removed = databases_in(glue, bucket, cluster=cluster)
    for name in removed:
        glue.delete_database(Name=name)
    return removed


def databases_in(glue: Any, bucket: str, *, cluster: str = "") -> list[str]:
    """Tableflow names its database after the cluster, whether it has a location or not."""
    pages = glue.get_paginator("get_databases").paginate()
    found = (each for page in pages for each in page["DatabaseList"])
    return [
        str(each["Name"])
        for each in found
        if each.get("LocationUri", "").startswith(f"s3://{bucket}/") or (cluster and each["Name"] == cluster)
    ]


def remove_log_groups(logs: Any, prefixes: tuple[str, ...]) -> list[str]:
    """Those that are there though their stack is gone; their names."""
    removed = []
    for prefix in prefixes:
        for page in logs.get_paginator("describe_log_groups").paginate(logGroupNamePrefix=prefix):
            for group in page["logGroups"]:
                logs.delete_log_group(logGroupName=group["logGroupName"])
                removed.append(str(group["logGroupName"]))
    return removed


def _exists(s3: Any, bucket: str) -> bool:
    from botocore.exceptions import ClientError  # type: ignore[import-untyped]  # noqa: PLC0415

    try:
        s3.head_bucket(Bucket=bucket)
    except ClientError as error:
        if error.response["Error"]["Code"] in {"404", "NoSuchBucket"}:
            return False
        raise ServiceError(
            f"Bucket {bucket} cannot be looked into: {error}", hint="run `scripts/deploy.sh check`: is it your account?"
        ) from error
    return True


def _abort_uploads(s3: Any, bucket: str) -> None:
    for page in s3.get_paginator("list_multipart_uploads").paginate(Bucket=bucket):
        for upload in page.get("Uploads", ()):
            s3.abort_multipart_upload(Bucket=bucket, Key=upload["Key"], UploadId=upload["UploadId"])


def _versions(page: Mapping[str, Any]) -> Iterator[dict[str, str]]:
    for version in (*page.get("Versions", ()), *page.get("DeleteMarkers", ())):
        yield {"Key": version["Key"], "VersionId": version["VersionId"]}


def _remove(s3: Any, bucket: str, objects: list[dict[str, str]], progress: Progress) -> int:
    """One page: S3 lists at most as many as it deletes at once (1,000)."""
    if not objects:
        return 0
    answer = s3.delete_objects(Bucket=bucket, Delete={"Objects": objects, "Quiet": True})
    for error in answer.get("Errors", ()):
        raise NotEmptyError(
            f"s3://{bucket}/{error['Key']} cannot be removed: {error['Code']}: {error.get('Message', '')}",
            hint="see whether a retention or a bucket policy protects it, then run the delete again: it goes on",
        )
    progress(len(objects))
    return len(objects)
