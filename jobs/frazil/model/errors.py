"""Every failure that Frazil names.

FrazilError
├── Misuse                 the command or a configuration file is wrong (exit 2)
│   ├── SettingError       an unknown key, a wrong type, a value that is not supported yet
│   └── SpecError          a table spec contradicts itself, another spec, or its readers
├── DataError              what the topic holds cannot be carried over as asked (exit 1)
│   ├── IncompatibleSchemaError
│   ├── SourceChangedError     the topic is not the one that the table was read from
│   ├── RecordsLostError       retention or compaction overtook the reader
│   └── BadRecordLimitError
├── TableError             the table's state forbids to go on (exit 1)
│   ├── ForeignTableError      Frazil did not create it
│   ├── ForeignOwnerError      another pipeline writes it
│   ├── StateLostError         rows but no state, or a broken chain of snapshots
│   ├── FencedError            another process of this pipeline took over
│   ├── ContendedError         `main` kept moving, the bounded attempts are used up
│   ├── CountMismatchError     the sums of a batch do not agree: a defect, nothing is published
│   ├── FormatVersionError     of Iceberg, which Frazil cannot write
│   ├── SpecChangeError        the table cannot follow a change of its spec
│   └── PausedError
├── DefectError            something that nobody foresaw: the trace is in the log (exit 1)
└── ServiceError           something outside does not answer or refuses (exit 1; worth retrying)
    ├── BrokerError
    │   └── TopicMissingError
    ├── RegistryError
    │   └── SubjectMissingError
    ├── CatalogError
    ├── CommitError
    │   ├── CommitRejectedError    another writer was faster: it did not land
    │   └── CommitUnknownError     no answer: it may have landed
    ├── SnowflakeError
    ├── TaskFailedError        Spark gave a task up (in adapters/spark.py)
    ├── LocalServicesError     the local services that the configuration refers to are not running
    └── MissingToolError       Java, a jar or a compiler is not on this machine

Two questions are answered by type: whose fault it is (the branch) and whether trying again at once, unchanged, can
help (`worth_retrying`: of services only, and not where they answered that something is missing).
"""

from __future__ import annotations


class FrazilError(Exception):
    """The root. One sentence saying what failed, on which thing, expected against found; and what to run next."""

    exit_status = 1
    worth_retrying = False

    def __init__(self, what: str, *, hint: str) -> None:
        super().__init__(what)
        self.what = what
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.what}\n\nhint: {self.hint}"

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, (type(self), self.what, self.hint)


def _rebuild(kind: type[FrazilError], what: str, hint: str) -> FrazilError:
    return kind(what, hint=hint)


class Misuse(FrazilError):  # noqa: N818 - the branch is named after whose fault it is
    """The command or a configuration file is wrong; nothing was done."""

    exit_status = 2


class SettingError(Misuse):
    """An unknown key, a wrong type, or a value that is not supported yet."""


class SpecError(Misuse):
    """A table spec contradicts itself, another spec, or its declared readers."""


class DataError(FrazilError):
    """What the topic holds cannot be carried over as the spec asks."""


class IncompatibleSchemaError(DataError):
    """A writer schema asks for a change that would not be safe for the table."""


class SourceChangedError(DataError):
    """The topic is not the one that the table was read from: re-created, truncated, or partitions removed."""


class RecordsLostError(DataError):
    """Records between the table's offset and the topic's earliest offset are gone."""


class BadRecordLimitError(DataError):
    """More records of a batch than `bad_record_limit` allows could not become rows."""


class TableError(FrazilError):
    """The state of the table forbids going on."""


class ForeignTableError(TableError):
    """The table exists and Frazil did not create it."""


class ForeignOwnerError(TableError):
    """Another pipeline writes this table."""


class StateLostError(TableError):
    """The table holds rows but no state, or the chain of its snapshots is broken."""


class FencedError(TableError):
    """Another process of the same pipeline published meanwhile; this one must stop."""


class ContendedError(TableError):
    """Other writers committed to the table during every one of a limited number of attempts."""


class CountMismatchError(TableError):
    """The counts of a batch do not agree with each other; nothing was published."""


class FormatVersionError(TableError):
    """The table has a format version of Iceberg that Frazil cannot write."""


class SpecChangeError(TableError):
    """The table cannot follow a change of its spec; nothing was changed."""


class PausedError(TableError):
    """The table is paused."""


class DefectError(FrazilError):
    """A defect of Frazil: an unexpected error."""


class ServiceError(FrazilError):
    """Something outside does not answer, or refuses. Trying again unchanged may help."""

    worth_retrying = True


class BrokerError(ServiceError):
    """The Kafka cluster does not answer, or refuses."""


class TopicMissingError(BrokerError):
    """The cluster has no such topic, or this user may not see it."""

    worth_retrying = False


class RegistryError(ServiceError):
    """The schema registry does not answer, or refuses."""


class SubjectMissingError(RegistryError):
    """The registry has no such subject."""

    worth_retrying = False


class CatalogError(ServiceError):
    """The Iceberg catalog or the storage under it does not answer, or refuses."""


class CommitError(ServiceError):
    """A commit did not succeed, or may not have. A step tries again a few times, and then raises another error."""

    def __init__(self, what: str, *, hint: str = "run the command again: it continues from the table") -> None:
        super().__init__(what, hint=hint)


class CommitRejectedError(CommitError):
    """The catalog refused a commit because something it rests on had changed. It did not land."""


class CommitUnknownError(CommitError):
    """A commit ended without an answer: it may have landed, may land later, or never."""


class SnowflakeError(ServiceError):
    """Snowflake does not answer, does not let a user in, or refuses what the user asks."""


class LocalServicesError(ServiceError):
    """The local services that the configuration refers to are not running."""

    worth_retrying = False


class MissingToolError(ServiceError):
    """A tool that this machine needs is not there."""

    worth_retrying = False
