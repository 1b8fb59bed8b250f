"""The error classes of Frazil.

FrazilError
├── Misuse                 the command or a configuration file is wrong (exit 2)
│   ├── SettingError       an unknown key, a wrong type, a value that is not supported yet
│   └── SpecError          a table spec contradicts itself, another spec, or its readers
├── DataError              the topic's data cannot be written to the table as the spec asks (exit 1)
│   ├── IncompatibleSchemaError
│   ├── SourceChangedError     the topic is not the one that the table was filled from
│   ├── RecordsLostError       retention or compaction overtook the reader
│   ├── BadRecordLimitError
│   ├── UnsupportedChangeError  a change event needs what this release does not do
│   ├── OutputSchemaError      the table's rows cannot become records of its output topic
│   └── QueryFailedError       the query of a transformation fails on a row
├── TableError             the table's state does not allow another batch (exit 1)
│   ├── ForeignTableError      Frazil did not create it
│   ├── ForeignOwnerError      another pipeline writes it
│   ├── StateLostError         the table has rows but no state, or its chain of snapshots is broken
│   ├── FencedError            another process of this pipeline took over
│   ├── GroupApartError        the tables of a group are not at one batch
│   ├── ContendedError         other writers moved `main` during every attempt
│   ├── CountMismatchError     the counts of a batch do not agree: a defect, nothing is published
│   ├── FormatVersionError     Frazil cannot write the table's Iceberg format version
│   ├── SpecChangeError        the table cannot follow a change of its spec
│   ├── ReplayError            a driver could not replay dead letters
│   ├── MaintenanceError       a driver could not maintain a table
│   ├── ErasureError           a value cannot be erased, or not everywhere
│   ├── RebuildError           the topics cannot make the table again
│   ├── ExportError            an export does not continue what is finished
│   ├── OutputHaltedError      an output topic cannot be continued from its marker
│   ├── TransformHaltedError   the table of a transformation cannot be continued from its position
│   └── PausedError
├── DefectError            an unexpected error: the stack trace is in the log (exit 1)
└── ServiceError           an external service does not answer or refuses (exit 1; worth retrying)
    ├── BrokerError
    │   ├── TopicMissingError
    │   └── TransactionTimedOutError   Kafka aborted a transaction because of its age
    ├── RegistryError
    │   └── SubjectMissingError
    ├── CatalogError
    ├── CommitError
    │   ├── CommitRejectedError    another writer committed first: this commit did not take effect
    │   └── CommitUnknownError     no response: the commit may have taken effect
    ├── SnowflakeError
    ├── TaskFailedError        a Spark task failed at every attempt (in adapters/spark/runner.py)
    ├── SparkClusterError      a Spark cluster does not answer or gives no executors (in adapters/spark/cluster.py)
    │   └── SparkWorkerError   its workers cannot run tasks
    ├── LocalServicesError     the local services that the configuration refers to are not running
    └── MissingToolError       Java, a jar or a compiler is missing on this machine

The type of an error answers two questions: whose fault it is (the branch), and whether an immediate retry can help
(`worth_retrying`: only for services, and not if the service answered that something is missing).
"""

from __future__ import annotations

from collections.abc import Iterable

from frazil.model.schemas import SchemaFinding, SchemaId


class FrazilError(Exception):
    """The root class. `what` says what failed, on which object, expected and found; `hint` says what to do next."""

    exit_status = 1
    worth_retrying = False

    def __init__(self, what: str, *, hint: str) -> None:
        super().__init__(what)
        self.what = what
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.what}\n\nhint: {self.hint}"

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, (type(self), self.what, self.hint), self.__dict__


def _rebuild(kind: type[FrazilError], what: str, hint: str) -> FrazilError:
    return kind(what, hint=hint)


class Misuse(FrazilError):  # noqa: N818 - named after whose fault it is
    """The command or a configuration file is wrong; nothing was done."""

    exit_status = 2


class SettingError(Misuse):
    """An unknown key, a wrong type, or a value that is not supported yet."""


class SpecError(Misuse):
    """A table spec contradicts itself, another spec, or its declared readers."""


class DataError(FrazilError):
    """The topic's data cannot be written to the table as the table spec asks."""


class IncompatibleSchemaError(DataError):
    """A writer schema requires a change that would not be safe for the table.

    `schema_id` is that of the writer schema, if a table refused one, and `of_key` says that it is that of a key.
    `findings` are the reasons by path, which `what` lists. With `always_pauses`, no setting makes dead letters of its
    records: some of them would be rows with another spec.
    """

    def __init__(
        self,
        what: str,
        *,
        hint: str,
        schema_id: SchemaId | None = None,
        of_key: bool = False,
        findings: tuple[SchemaFinding, ...] = (),
        always_pauses: bool = False,
    ) -> None:
        super().__init__(what, hint=hint)
        self.schema_id = schema_id
        self.of_key = of_key
        self.findings = findings
        self.always_pauses = always_pauses


class SourceChangedError(DataError):
    """The topic is not the one that the table was filled from: it was re-created or truncated, or lost partitions."""


class RecordsLostError(DataError):
    """Kafka has deleted records between the table's next offset and the partition's earliest offset."""


class BadRecordLimitError(DataError):
    """More records of a batch than `bad_record_limit` allows could not become rows."""


class UnsupportedChangeError(DataError):
    """A change event cannot be applied by this release: it needs rows as they are stored."""


class OutputSchemaError(DataError):
    """The columns of a table cannot be the records of its output topic, or the registry refuses their schema."""


class QueryFailedError(DataError):
    """The query of a transformation fails on a row, as with a division by zero; nothing was published."""


class TableError(FrazilError):
    """The state of the table does not allow another batch."""


class ForeignTableError(TableError):
    """The table exists and Frazil did not create it."""


class ForeignOwnerError(TableError):
    """Another pipeline writes this table."""


class StateLostError(TableError):
    """The table holds rows but no state, or the chain of its snapshots is broken."""


class FencedError(TableError):
    """Another process of the same pipeline has published a batch; this one must stop."""


class GroupApartError(TableError):
    """The tables of a group are not at one batch, and at least one of them cannot get the batch of the ledger."""


class ContendedError(TableError):
    """Other writers committed to the table during every one of a limited number of attempts."""


class CountMismatchError(TableError):
    """The counts of a batch do not agree with each other; nothing was published."""


class FormatVersionError(TableError):
    """The table has a format version of Iceberg that Frazil cannot write."""


class SpecChangeError(TableError):
    """The table cannot follow a change of its spec; nothing was changed."""


class ReplayError(TableError):
    """A driver could not replay dead letters as it was asked to. Those that were replayed before are rows."""


class MaintenanceError(TableError):
    """A table could not be maintained as it was asked for. What was done before stays."""


class ErasureError(TableError):
    """A value cannot be erased from a table, or some traces are left. What was erased is not restored."""


class RebuildError(TableError):
    """A table cannot be made again from its topics. Readers see it as it was."""


class ExportError(TableError):
    """An export cannot continue the files that are finished; nothing was written."""


class OutputHaltedError(TableError):
    """An output topic cannot be continued: it would miss rows, or have some twice. Batches of the table continue."""


class TransformHaltedError(TableError):
    """The table of a transformation cannot be continued: its source, its query or its rows were changed."""


class PausedError(TableError):
    """The table is paused."""


class DefectError(FrazilError):
    """A defect of Frazil: an unexpected error."""


class ServiceError(FrazilError):
    """An external service does not answer, or refuses. A retry may help."""

    worth_retrying = True


class BrokerError(ServiceError):
    """The Kafka cluster does not answer, or refuses."""


class TopicMissingError(BrokerError):
    """The cluster has no such topic, or this user may not see it."""

    worth_retrying = False


class TransactionTimedOutError(BrokerError):
    """Kafka aborted a transaction because of its age. Readers see all of its records, or none."""


class RegistryError(ServiceError):
    """The schema registry does not answer, or refuses."""


class SubjectMissingError(RegistryError):
    """The registry has no such subject, or no such version of the subject."""

    worth_retrying = False


def version_missing(subject: str, number: int, existing: Iterable[int]) -> SubjectMissingError:
    """Return the error for a version of a subject that a registry with the `existing` ones does not have."""
    versions = ", ".join(map(str, sorted(existing)))
    if not versions:
        return SubjectMissingError(f"the schema registry has no subject {subject}", hint="name another subject")
    what = f"the schema registry has no version {number} of {subject}, which has {versions}"
    return SubjectMissingError(what, hint="name one of these versions")


class CatalogError(ServiceError):
    """The Iceberg catalog or the storage under it does not answer, or refuses."""


class CommitError(ServiceError):
    """A commit failed, or may have failed. A step retries a few times and then raises another error."""

    def __init__(self, what: str, *, hint: str = "run the command again: it continues from the table") -> None:
        super().__init__(what, hint=hint)


class CommitRejectedError(CommitError):
    """The catalog rejected a commit because the table had changed. The commit did not take effect."""


class CommitUnknownError(CommitError):
    """A commit got no response: it may have taken effect, may do so later, or never."""


class SnowflakeError(ServiceError):
    """Snowflake does not answer, rejects a login, or refuses a statement."""


class LocalServicesError(ServiceError):
    """The local services that the configuration refers to are not running."""

    worth_retrying = False


class MissingToolError(ServiceError):
    """A tool that is needed on this machine is not installed."""

    worth_retrying = False
