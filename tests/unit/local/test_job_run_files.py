"""Archives of job runs in the double of EMR Serverless."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

from frazil.local.aws_double.emr_serverless.files import unpack
from frazil.local.aws_double.emr_serverless.spark_submit import Archive


class Bucket:
    """boto3's client of S3 for one object, which counts how often it is sent."""

    def __init__(self, content: bytes) -> None:
        self.content = content
        self.sent = 0

    def head_object(self, **_: str) -> dict[str, str]:
        return {"ETag": f'"{len(self.content)}"'}

    def get_object(self, **_: str) -> dict[str, object]:
        self.sent += 1
        return {"Body": io.BytesIO(self.content)}


def packed(name: str) -> bytes:
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w:gz") as tar:
        tar.addfile(tarfile.TarInfo(name))
    return raw.getvalue()


def test_an_archive_that_is_unpacked_is_not_fetched_by_the_next_attempt(tmp_path: Path) -> None:
    bucket = Bucket(packed("there"))
    archive = Archive("s3://lake/artefacts/environment.tar.gz", "environment")

    for attempt in ("1", "2"):
        (tmp_path / attempt).mkdir()
        unpack(bucket, [archive], tmp_path / attempt, tmp_path / "unpacked")

    assert [path.name for path in sorted(tmp_path.glob("?/environment/*"))] == ["there", "there"]
    assert bucket.sent == 1
