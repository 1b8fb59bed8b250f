"""Delta logs, through delta-rs: versions that name existing files. No data is read or written.

A version is written only if it does not exist (a conditional put on S3, a hard link in a folder), in one attempt. It
records its Iceberg snapshot as an application transaction. delta-rs writes checkpoints, and deletes versions that are
older than 30 days and contained in a checkpoint.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Any, Literal, assert_never
from urllib.parse import quote, unquote

import pyarrow as pa
from deltalake import DeltaTable, Field, Schema
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
from deltalake.transaction import (
    AddAction,
    CommitProperties,
    RemoveAction,
    Transaction,
    create_table_with_add_actions,
)

from frazil.adapters.aws.caller import session_options
from frazil.adapters.delta.files import SnapshotFiles, shapes
from frazil.adapters.delta.versions import delete_before, removals
from frazil.model.delta import (
    AddFile,
    BeginLog,
    DeltaLog,
    DeltaMetadata,
    ExtendLog,
    FileShape,
    LoggedFile,
    LogWrite,
    Removals,
    RemoveFile,
    ReplaceLog,
    TableFile,
    TableFiles,
)
from frazil.model.errors import CatalogError, CommitRejectedError, DefectError
from frazil.model.secret import SettingValue, revealed
from frazil.model.snapshot import TableView

APPLICATION = "frazil.iceberg.snapshot"
"""The application whose transactions number Iceberg snapshots."""

CONFIGURATION = {"delta.deletedFileRetentionDuration": "interval 36500 days", "delta.checkpointInterval": "10"}
"""A VACUUM deletes files that the log does not name, such as all Iceberg metadata, unless they are younger than this.

Opening a log reads every version since the last checkpoint. Each batch opens it twice, so every tenth version has one.
"""

SKIPPING = "delta.dataSkippingStatsColumns"
"""The property that names the columns by whose bounds readers skip files."""

NOT_ENCODED = "/!$&'()+,:;=@"
"""What delta-rs 1.6 leaves as it is in paths, beside letters, digits and `-._~`."""

_S3_OPTIONS = {
    "AWS_ENDPOINT_URL": ("s3.endpoint",),
    "AWS_ACCESS_KEY_ID": ("s3.access-key-id", "client.access-key-id"),
    "AWS_SECRET_ACCESS_KEY": ("s3.secret-access-key", "client.secret-access-key"),
    "AWS_SESSION_TOKEN": ("s3.session-token", "client.session-token"),
    "AWS_REGION": ("s3.region", "client.region", "glue.region"),
}


class DeltaRsLogs:
    """The logs of tables (`ports.DeltaLogs`). `storage` are PyIceberg's properties for the same storage."""

    def __init__(self, storage: Mapping[str, SettingValue]) -> None:
        self._storage = storage
        self._files = SnapshotFiles()

    def files(self, view: TableView) -> TableFiles:
        return self._files.of_head(view)

    def shapes(self, view: TableView, files: Sequence[TableFile]) -> Iterable[FileShape]:
        return shapes(view, files)

    def read(self, location: str) -> DeltaLog | None:
        """Return the newest version, or None if the table has no log. Raises CatalogError if it cannot be read."""
        with _as_errors(location):
            try:
                table = self._open(location)
            except TableNotFoundError:
                return None
            return _log(table)

    def removals(self, location: str, *, newest: int) -> Iterator[Removals]:
        """Yield what each version removed, newest first. Raises CatalogError if a version cannot be read."""
        with _as_errors(location):
            yield from removals(self._storage, location, newest)

    def removed(self, location: str) -> frozenset[str]:
        """Return what any version removed and the newest does not have; the newest checkpoint and later ones list it.

        delta-rs lists it as what a VACUUM would delete. A dry run deletes nothing, and writes nothing to the log.
        """
        with _as_errors(location):
            try:
                table = self._open(location)
            except TableNotFoundError:
                return frozenset()
            return frozenset(table.vacuum(retention_hours=0, dry_run=True, enforce_retention_duration=False))

    def forget_earlier(self, location: str) -> None:
        """Write a checkpoint of the newest version, and delete all earlier versions. A table without a log has none."""
        with _as_errors(location):
            try:
                table = self._open(location)
            except TableNotFoundError:
                return
            table.create_checkpoint()
            delete_before(self._storage, location, table.version())

    def write(self, location: str, write: LogWrite) -> None:
        """Write the planned version. Raises CommitRejectedError if another writer committed a version first."""
        with _as_errors(location):
            match write:
                case BeginLog():
                    self._begin(location, write)
                case ExtendLog():
                    self._extend(location, write)
                case ReplaceLog():
                    self._replace(location, write)
                case _:
                    assert_never(write)

    def _begin(self, location: str, write: BeginLog) -> None:
        try:
            create_table_with_add_actions(
                _address(location),
                Schema.from_json(write.metadata.schema),
                [_add(each) for each in write.add],
                mode="error",
                configuration=CONFIGURATION | _skipping(write.metadata),
                storage_options=self._options(location),
                commit_properties=_stands_for(write.snapshot_id),
            )
        except DeltaError as problem:
            if self.read(location) is not None:
                raise CommitFailedError(f"another writer created the log: {problem}") from problem
            raise

    def _extend(self, location: str, write: ExtendLog) -> None:
        table = self._open(location, write.base)
        if write.new_columns:
            fields = [Field.from_json(text) for text in write.new_columns]
            table.alter.add_columns(fields, commit_properties=CommitProperties(max_commit_retries=0))
        adds, removes = [_add(each) for each in write.add], [_remove(each) for each in write.remove]
        _put(table, [*adds, *removes], "append", write)

    def _replace(self, location: str, write: ReplaceLog) -> None:
        _put(self._open(location, write.base), [_add(each) for each in write.add], "overwrite", write)

    def _open(self, location: str, version: int | None = None) -> DeltaTable:
        return DeltaTable(_address(location), version=version, storage_options=self._options(location))

    def _options(self, location: str) -> dict[str, str] | None:
        if not _address(location).startswith("s3://"):
            return None
        given = revealed(self._storage)
        options = {name: given[key] for name, keys in _S3_OPTIONS.items() for key in reversed(keys) if key in given}
        if "AWS_ACCESS_KEY_ID" not in options:
            options |= self._of_the_surroundings()
        plain = options.get("AWS_ENDPOINT_URL", "").startswith("http://")
        return {**options, "AWS_CONDITIONAL_PUT": "etag", **({"AWS_ALLOW_HTTP": "true"} if plain else {})}

    def _of_the_surroundings(self) -> dict[str, str]:
        """Credentials of the role or the profile, as Glue's client finds them: delta-rs looks in fewer places.

        boto3 renews them before they end; a log is opened anew for each look and each write.
        """
        from botocore.exceptions import BotoCoreError  # type: ignore[import-untyped]  # noqa: PLC0415

        try:
            found = self._session.get_credentials()
            credentials = None if found is None else found.get_frozen_credentials()
        except BotoCoreError as problem:
            raise CatalogError(
                f"no AWS credentials to open Delta logs: {problem}",
                hint="run `aws configure sso`, or set AWS_PROFILE; on EMR Serverless, check the job role",
            ) from problem
        if credentials is None:
            return {}
        token = {} if credentials.token is None else {"AWS_SESSION_TOKEN": credentials.token}
        return {
            "AWS_ACCESS_KEY_ID": credentials.access_key,
            "AWS_SECRET_ACCESS_KEY": credentials.secret_key,
            **token,
        }

    @cached_property
    def _session(self) -> Any:
        import boto3  # type: ignore[import-untyped]  # noqa: PLC0415 - slow, and only AWS needs it

        return boto3.Session(**session_options(self._storage))


def _put(
    table: DeltaTable,
    actions: Sequence[AddAction | RemoveAction],
    mode: Literal["append", "overwrite"],
    write: ExtendLog | ReplaceLog,
) -> None:
    schema = Schema.from_json(write.metadata.schema)
    said = _stands_for(write.snapshot_id)
    table.create_write_transaction(list(actions), mode, schema, commit_properties=said)
    if write.sets_skipping:
        table.load_as_version(write.version - 1)  # delta-rs leaves the table at the version before the files
        table.alter.set_table_properties(_skipping(write.metadata), commit_properties=said)


def _skipping(metadata: DeltaMetadata) -> dict[str, str]:
    return {} if metadata.skipping is None else {SKIPPING: metadata.skipping}


def _log(table: DeltaTable) -> DeltaLog:
    protocol, files = table.protocol(), pa.table(table.get_add_actions())
    return DeltaLog(
        version=table.version(),
        metadata=DeltaMetadata(
            table.schema().to_json(),
            protocol.min_reader_version,
            protocol.min_writer_version,
            tuple(table.metadata().partition_columns),
            table.metadata().configuration.get(SKIPPING),
        ),
        snapshot_id=table.transaction_version(APPLICATION),
        files=tuple(_logged(row) for row in files.select(["path", "size_bytes"]).to_pylist()),
    )


def _logged(row: Mapping[str, Any]) -> LoggedFile:
    """Decode the path, which is a URI by Delta's protocol: delta-rs encodes paths that it writes, but decodes none."""
    path = unquote(row["path"])
    return LoggedFile(path, row["size_bytes"], quote(path, safe=NOT_ENCODED) == row["path"])


def _stands_for(snapshot_id: int) -> CommitProperties:
    return CommitProperties(max_commit_retries=0, app_transactions=[Transaction(APPLICATION, snapshot_id)])


def _add(file: AddFile) -> AddAction:
    return AddAction(file.path, file.size, {}, file.modified_ms, file.data_change, file.stats)


def _remove(file: RemoveFile) -> RemoveAction:
    return RemoveAction(file.path, file.data_change, file.removed_ms, file.size, {})


def _address(location: str) -> str:
    return location.removeprefix("file://").replace("s3a://", "s3://", 1)


@contextmanager
def _as_errors(location: str) -> Iterator[None]:
    try:
        yield
    except CommitFailedError as lost:
        raise CommitRejectedError(f"another writer committed to the Delta log of {location}: {lost}") from lost
    except (DeltaError, OSError) as problem:
        raise CatalogError(
            f"the Delta log of {location} cannot be read or written: {type(problem).__name__}: {problem}",
            hint="check the credentials and the network; the next run writes the missing versions",
        ) from problem
    except BaseException as panic:
        if type(panic).__name__ != "PanicException":  # of native code: it is no Exception, and has no other name
            raise
        raise DefectError(
            f"the Delta log of {location} cannot be read or written: {panic}",
            hint="report this as a defect, with the whole log",
        ) from panic
