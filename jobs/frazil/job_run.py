"""A job run on EMR Serverless: fetches its configuration and specs from S3, then is `frazil`.

    job_run --config s3://…/frazil.yaml --tables s3://…/tables.zip --transforms s3://…/transforms.zip \
        materialize --once stock_trades

What follows the options is a command of `frazil`, which gets the fetched configuration as its `--config`.
"""

from __future__ import annotations

import argparse
import io
import sys
import tempfile
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from frazil.cli.app import run
from frazil.cli.printed_errors import named
from frazil.model.errors import FrazilError, ServiceError, SettingError
from frazil.specs.settings_keys import TABLES_FOLDER, TRANSFORMS_FOLDER

CONFIG_FILE = "frazil.yaml"


def main() -> NoReturn:
    """The entry point of the job: its exit status is the state of the job run."""
    sys.exit(carry_out(sys.argv[1:]))


def carry_out(arguments: Sequence[str]) -> int:
    """Fetch what the command needs, and carry it out; the exit status."""
    asked = _asked(arguments)
    with tempfile.TemporaryDirectory(prefix="frazil-") as folder:
        try:
            config = fetch(asked.config, asked.specs, Path(folder))
        except FrazilError as error:
            print(named(error), file=sys.stderr)
            return error.exit_status
        return run([*asked.command, "--config", str(config)], config_called=asked.config)


def fetch(config: str, specs: Mapping[str, str], folder: Path) -> Path:
    """Download the configuration and the specs into `folder`; return the path of the configuration.

    `specs` are addresses of archives by the folders that they become. Raises ServiceError where S3 does not give one of
    them, SettingError for an address that is none.
    """
    for name, address in specs.items():
        with zipfile.ZipFile(io.BytesIO(_object(address))) as archive:
            archive.extractall(folder / name)
    target = folder / CONFIG_FILE
    target.write_bytes(_object(config))
    return target


@dataclass(frozen=True, slots=True)
class _Asked:
    config: str
    specs: Mapping[str, str]
    command: tuple[str, ...]


def _asked(arguments: Sequence[str]) -> _Asked:
    parser = argparse.ArgumentParser(prog="job_run", description="A frazil command on EMR Serverless.")
    parser.add_argument("--config", required=True, metavar="S3", help="frazil.yaml in S3")
    parser.add_argument("--tables", required=True, metavar="S3", help="the table specs in S3, as a zip")
    parser.add_argument("--transforms", metavar="S3", help="the transformations in S3, as a zip; none without it")
    parser.add_argument("command", nargs=argparse.REMAINDER, help="the command, such as: materialize --once")
    given = parser.parse_args(arguments)
    transforms = {} if given.transforms is None else {TRANSFORMS_FOLDER: given.transforms}
    return _Asked(given.config, {TABLES_FOLDER: given.tables, **transforms}, tuple(given.command))


def _object(address: str) -> bytes:
    import boto3  # type: ignore[import-untyped]  # noqa: PLC0415 - `--help` needs none of it
    from botocore.exceptions import BotoCoreError, ClientError  # type: ignore[import-untyped]  # noqa: PLC0415

    bucket, key = _bucket_and_key(address)
    try:
        return bytes(boto3.client("s3").get_object(Bucket=bucket, Key=key)["Body"].read())
    except (ClientError, BotoCoreError) as error:
        raise ServiceError(
            f"{address} cannot be read: {error}",
            hint="run `scripts/deploy.sh create` again, which uploads missing files, and check that the job"
            " role may read it",
        ) from error


def _bucket_and_key(address: str) -> tuple[str, str]:
    bucket, _, key = address.removeprefix("s3://").partition("/")
    if not address.startswith("s3://") or not bucket or not key:
        raise SettingError(f'expected an address in S3, found "{address}"', hint="write s3://bucket/key")
    return bucket, key
