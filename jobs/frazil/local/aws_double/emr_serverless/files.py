"""Fetch the files of a job run from S3 with the credentials of its role; unpack archives into its work directory."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from frazil.local.aws_double.emr_serverless.spark_submit import Archive

SCHEMES = ("s3://", "s3a://", "s3n://")


def fetch(s3: Any, addresses: Iterable[str], folder: Path) -> dict[str, Path]:
    """Fetch every S3 address; return the local files by address. Other schemes, such as `local:`, are left to Spark."""
    return {address: _fetched(s3, address, folder) for address in addresses if address.startswith(SCHEMES)}


def unpack(s3: Any, archives: Iterable[Archive], work: Path, unpacked: Path) -> None:
    """Link each archive into `work` as a folder. `unpacked` caches unpacked archives by content."""
    for archive in archives:
        (work / archive.name).symlink_to(_unpacked(s3, archive, unpacked), target_is_directory=True)


def _unpacked(s3: Any, archive: Archive, unpacked: Path) -> Path:
    bucket, key = _bucket_and_key(archive.address)
    target: Path = unpacked / s3.head_object(Bucket=bucket, Key=key)["ETag"].strip('"')
    if not target.exists():
        packed = _fetched(s3, archive.address, unpacked / "fetched" / target.name)
        half = target.with_name(f"{target.name}.half")
        shutil.rmtree(half, ignore_errors=True)
        shutil.unpack_archive(packed, half)
        half.rename(target)
        packed.unlink()
    os.utime(target)
    return target


def forget_unpacked(unpacked: Path, *, unused_days: float) -> None:
    """Remove unpacked archives that no run has used for `unused_days`: every change of the packages adds a new one."""
    oldest = time.time() - unused_days * 86400
    for folder in unpacked.glob("*"):
        if folder.stat().st_mtime < oldest:
            shutil.rmtree(folder, ignore_errors=True)


def _fetched(s3: Any, address: str, folder: Path) -> Path:
    bucket, key = _bucket_and_key(address)
    return _write(s3.get_object(Bucket=bucket, Key=key)["Body"], folder / Path(key).name)


def _write(body: Any, target: Path) -> Path:
    target.parent.mkdir(parents=True, exist_ok=True)
    with target.open("wb") as written:
        shutil.copyfileobj(body, written)
    return target


def _bucket_and_key(address: str) -> tuple[str, str]:
    bucket, _, key = address.partition("://")[2].partition("/")
    return bucket, key
