"""Empty the bucket and delete resources that Terraform does not manage, so that a `delete` leaves nothing.

A versioned bucket holds object versions, delete markers and incomplete multipart uploads. A Lambda function may
recreate its log group after Terraform has deleted it. Roles for Snowflake remain if the state of its stack was lost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from frazil.model.errors import ServiceError

Progress = Callable[[int], None]
"""Called after each request with the number of object versions it deleted."""


class NotEmptyError(ServiceError):
    """S3 refused to delete an object, because of a retention or a bucket policy."""


def empty_bucket(s3: Any, bucket: str, progress: Progress) -> int:
    """Delete every version of every object and return their number; 0 if the bucket does not exist.

    `s3` is a boto3 client. Raises NotEmptyError with the first key that cannot be deleted.
    """
    if not _exists(s3, bucket):
        return 0
    _abort_uploads(s3, bucket)
    removed = 0
    for page in s3.get_paginator("list_object_versions").paginate(Bucket=bucket):
        removed += _remove(s3, bucket, list(_versions(page)), progress)
    return removed


def remove_databases(glue: Any, bucket: str, *, cluster: str = "") -> list[str]:
    """Delete the Glue databases located in the bucket and the cluster's Tableflow database; return their names.

    Terraform knows at most one of them: after `delete --keep-data` the database of an earlier cluster remains.
    """
    removed = databases_in(glue, bucket, cluster=cluster)
    for name in removed:
        glue.delete_database(Name=name)
    return removed


def databases_in(glue: Any, bucket: str, *, cluster: str = "") -> list[str]:
    """Return the names of the Glue databases in the bucket, and of Tableflow's, which is named after the cluster."""
    pages = glue.get_paginator("get_databases").paginate()
    found = (each for page in pages for each in page["DatabaseList"])
    return [
        str(each["Name"])
        for each in found
        if each.get("LocationUri", "").startswith(f"s3://{bucket}/") or (cluster and each["Name"] == cluster)
    ]


def remove_log_groups(logs: Any, prefixes: tuple[str, ...]) -> list[str]:
    """Delete the log groups with these prefixes and return their names."""
    removed = []
    for prefix in prefixes:
        for page in logs.get_paginator("describe_log_groups").paginate(logGroupNamePrefix=prefix):
            for group in page["logGroups"]:
                logs.delete_log_group(logGroupName=group["logGroupName"])
                removed.append(str(group["logGroupName"]))
    return removed


def remove_roles(iam: Any, prefix: str) -> list[str]:
    """Delete the IAM roles with this prefix and their inline policies, and return their names."""
    pages = iam.get_paginator("list_roles").paginate()
    removed = [str(role["RoleName"]) for page in pages for role in page["Roles"] if role["RoleName"].startswith(prefix)]
    for role in removed:
        for policy in iam.list_role_policies(RoleName=role)["PolicyNames"]:
            iam.delete_role_policy(RoleName=role, PolicyName=policy)
        iam.delete_role(RoleName=role)
    return removed


def _exists(s3: Any, bucket: str) -> bool:
    from botocore.exceptions import ClientError  # type: ignore[import-untyped]  # noqa: PLC0415

    try:
        s3.head_bucket(Bucket=bucket)
    except ClientError as error:
        if error.response["Error"]["Code"] in {"404", "NoSuchBucket"}:
            return False
        raise ServiceError(
            f"cannot access the bucket {bucket}: {error}",
            hint="run `scripts/deploy.sh check` to see whether the profile is for the right account",
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
    """Delete one page of a listing; S3 lists and deletes at most 1,000 versions per request."""
    if not objects:
        return 0
    answer = s3.delete_objects(Bucket=bucket, Delete={"Objects": objects, "Quiet": True})
    for error in answer.get("Errors", ()):
        raise NotEmptyError(
            f"s3://{bucket}/{error['Key']} cannot be deleted: {error['Code']}: {error.get('Message', '')}",
            hint="remove the retention or the bucket policy that protects it, then rerun the delete: it resumes",
        )
    progress(len(objects))
    return len(objects)
