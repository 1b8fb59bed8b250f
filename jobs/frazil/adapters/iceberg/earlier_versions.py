"""Earlier versions of a table's files, in a bucket that keeps them: of files that were replaced or deleted."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

from pyiceberg.io import FileIO, InputFile, InputStream, OutputFile

from frazil.adapters.aws.caller import session_options
from frazil.model.errors import CatalogError
from frazil.model.secret import SettingValue, revealed

MARK = "?versionId="
GONE = ("404", "NoSuchKey", "NoSuchVersion")
"""What S3 answers if a version is gone."""
AT_ONCE = 1_000
"""S3 deletes at most so many objects in a request."""


@dataclass(frozen=True, slots=True)
class EarlierVersion:
    """One version of an object that is not the newest. `address` is that of the object."""

    address: str
    id: str

    @staticmethod
    def of(text: str) -> EarlierVersion:
        """Return the version that a text names, as `str` writes it."""
        address, _, version = text.rpartition(MARK)
        return EarlierVersion(address, version)

    def __str__(self) -> str:
        return f"{self.address}{MARK}{self.id}"


class EarlierVersions:
    """Lists, reads and deletes them. `storage` are PyIceberg's properties. Raises CatalogError if S3 refuses."""

    def __init__(self, storage: Mapping[str, SettingValue]) -> None:
        self._storage = storage

    def below(self, folder: str) -> list[EarlierVersion]:
        """Return those below a folder; none of a folder that is not in S3, or whose bucket keeps none."""
        if not folder.startswith("s3://"):
            return []
        bucket, _, prefix = folder.removeprefix("s3://").partition("/")
        with _as_errors(f"list earlier versions below {folder}", "s3:ListBucketVersions"):
            pages = self._s3.get_paginator("list_object_versions").paginate(
                Bucket=bucket, Prefix=f"{prefix.rstrip('/')}/"
            )
            found = [each for page in pages for each in page.get("Versions", ()) if not each["IsLatest"]]
        return [EarlierVersion(f"s3://{bucket}/{each['Key']}", each["VersionId"]) for each in found]

    def files(self, version: EarlierVersion) -> FileIO:
        """Return files that have this version alone."""
        return _OneVersion(self._s3, version)

    def delete(self, versions: Sequence[EarlierVersion]) -> None:
        """Delete versions for good. Raises CatalogError, also if S3 refuses some of them."""
        by_bucket: dict[str, list[dict[str, str]]] = {}
        for each in versions:
            bucket, key = _place(each)
            by_bucket.setdefault(bucket, []).append({"Key": key, "VersionId": each.id})
        for bucket, named in by_bucket.items():
            for some in (named[start : start + AT_ONCE] for start in range(0, len(named), AT_ONCE)):
                with _as_errors(f"delete earlier versions in {bucket}", "s3:DeleteObjectVersion"):
                    answer = self._s3.delete_objects(Bucket=bucket, Delete={"Objects": some, "Quiet": True})
                for refused in answer.get("Errors", ())[:1]:
                    raise _refused(f"delete {refused['Key']}", refused["Code"], "s3:DeleteObjectVersion")

    @cached_property
    def _s3(self) -> Any:
        import boto3  # type: ignore[import-untyped]  # noqa: PLC0415 - slow, and only S3 needs it

        session = boto3.Session(**session_options(self._storage))
        return session.client("s3", endpoint_url=revealed(self._storage).get("s3.endpoint"))


class _OneVersion(FileIO):
    def __init__(self, s3: Any, version: EarlierVersion) -> None:
        super().__init__({})
        self._s3, self._version = s3, version

    def new_input(self, location: str) -> InputFile:
        return _Version(location, self._s3, self._version)

    def new_output(self, location: str) -> OutputFile:
        raise NotImplementedError(location)

    def delete(self, location: str | InputFile | OutputFile) -> None:
        raise NotImplementedError(location)


class _Version(InputFile):
    def __init__(self, location: str, s3: Any, version: EarlierVersion) -> None:
        super().__init__(location)
        self._s3, self._version = s3, version

    def __len__(self) -> int:
        raise NotImplementedError

    def exists(self) -> bool:
        raise NotImplementedError

    def open(self, seekable: bool = True) -> InputStream:
        """Return the version as a local file, which is gone once it is closed: footers are read before rows.

        Raises FileNotFoundError if the version is gone, as a rule of the bucket may delete it at any time.
        """
        bucket, key = _place(self._version)
        local = tempfile.TemporaryFile()  # noqa: SIM115 - the caller closes it
        try:
            with _as_errors(f"read {self._version}", "s3:GetObjectVersion"):
                self._s3.download_fileobj(bucket, key, local, ExtraArgs={"VersionId": self._version.id})
        except BaseException:
            local.close()
            raise
        local.seek(0)
        return cast(InputStream, local)


def _place(version: EarlierVersion) -> tuple[str, str]:
    bucket, _, key = version.address.removeprefix("s3://").partition("/")
    return bucket, key


@contextmanager
def _as_errors(what: str, permission: str) -> Iterator[None]:
    from botocore.exceptions import BotoCoreError, ClientError  # type: ignore[import-untyped]  # noqa: PLC0415

    try:
        yield
    except ClientError as problem:
        if problem.response["Error"]["Code"] in GONE:
            raise FileNotFoundError(what) from problem
        raise _refused(what, problem.response["Error"]["Code"], permission) from problem
    except BotoCoreError as problem:
        raise CatalogError(f"could not {what}: {problem}", hint="check the credentials and the network") from problem


def _refused(what: str, code: str, permission: str) -> CatalogError:
    return CatalogError(f"could not {what}: {code}", hint=f"allow {permission} to the role that erases")
