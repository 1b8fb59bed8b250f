"""The warehouse's storage as a job uses it: list, put, get and remove one small object that no table knows.

Through the same library and with the same settings as data files are written, so what is allowed here is there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyarrow.fs import AwsStandardS3RetryStrategy, FileSelector
from pyiceberg.io import FileIO

from frazil.materialize.ingest.storage import open_storage
from frazil.model.errors import CatalogError
from frazil.model.secret import SettingValue
from frazil.model.settings import CatalogSettings
from frazil.model.spelling import plural

CONTENT = b"Written by `frazil doctor` to see whether it may. No table knows it: remove it.\n"
NAME = "frazil-doctor-probe-"


class StorageProbe:
    """One object in an `s3://` warehouse. Each step raises CatalogError."""

    def __init__(self, settings: CatalogSettings, *, new_id: str, seconds: float) -> None:
        self._warehouse = settings.warehouse.rstrip("/")
        self._address = f"{self._warehouse}/{NAME}{new_id}"
        self._properties = {**bounded(seconds), **settings.properties}
        self._io: FileIO | None = None

    def list(self) -> str:
        bucket, _, prefix = self._warehouse.removeprefix("s3://").partition("/")

        def listed() -> str:
            opened: Any = self._opened()
            try:
                found = opened.fs_by_scheme("s3", bucket).get_file_info(FileSelector(f"{bucket}/{prefix}".rstrip("/")))
            except FileNotFoundError:
                return "empty"
            return f"{plural(len(found), 'folder')} or objects at the top level"

        return str(_tried("list", self._warehouse, "s3:ListBucket on the bucket", listed))

    def put(self) -> str:
        def put() -> None:
            with self._opened().new_output(self._address).create(overwrite=True) as stream:
                stream.write(CONTENT)

        _tried("put", self._address, "s3:PutObject, and kms:GenerateDataKey with the bucket's key", put)
        return f"{len(CONTENT)} bytes written to {self._address}"

    def get(self) -> str:
        """Read the object back. Raises CatalogError if it cannot be read or its bytes differ."""

        def got() -> bytes:
            with self._opened().new_input(self._address).open() as stream:
                return bytes(stream.read())

        found = _tried("get", self._address, "s3:GetObject, and kms:Decrypt with the bucket's key", got)
        if found != CONTENT:
            raise CatalogError(
                f"{self._address} returned {len(found)} bytes that differ from those just written",
                hint="something rewrites objects in transit: check proxies and the endpoint",
            )
        return "read back the same bytes"

    def remove(self) -> str:
        _tried(
            "remove",
            self._address,
            "s3:DeleteObject; then delete the object by hand",
            lambda: self._opened().delete(self._address),
        )
        return "removed again"

    def _opened(self) -> FileIO:
        if self._io is None:
            self._io = open_storage(self._properties, self._warehouse)
        return self._io


class OneAttempt(AwsStandardS3RetryStrategy):  # type: ignore[misc]  # pyarrow is not typed
    """A storage that does not answer is not asked three times."""

    def __init__(self) -> None:
        super().__init__(max_attempts=1)


def bounded(seconds: float) -> Mapping[str, SettingValue]:
    """Return catalog settings with a time limit: S3 is asked once, and Glue twice.

    PyIceberg asks Glue eleven times, with waits of up to 20 s.
    """
    return {
        "glue.max-retries": "1",
        "s3.connect-timeout": f"{seconds / 2:g}",
        "s3.request-timeout": f"{seconds:g}",
        "s3.retry-strategy-impl": f"{__name__}.{OneAttempt.__name__}",
    }


def _tried(verb: str, address: str, needs: str, act: Any) -> Any:
    try:
        return act()
    except Exception as problem:
        raise CatalogError(
            f"could not {verb} {address}: {_short(problem)}", hint=_hint(str(problem), needs)
        ) from problem


def _short(problem: Exception) -> str:
    return " ".join(f"{type(problem).__name__}: {problem}".split())[:500]


def _hint(said: str, needs: str) -> str:
    if any(word in said for word in ("NO_SUCH_BUCKET", "NoSuchBucket", "bucket does not exist")):
        return (
            "the bucket does not exist: fix `catalog: warehouse`, or run `scripts/deploy.sh create`, which creates it"
        )
    if any(word in said for word in ("ACCESS_DENIED", "AccessDenied", "Forbidden", "403")):
        return f"grant to the AWS identity shown above: {needs}"
    return "check the region, endpoint and credentials: `catalog` in frazil.yaml, AWS_REGION, AWS_PROFILE"
