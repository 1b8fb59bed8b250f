"""Check the schema registry: the connection, authentication, and the subjects of each topic."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from frazil.adapters.registry import open_registry
from frazil.doctor.addresses import registry_address, tls_of_registry
from frazil.doctor.asking import Asking
from frazil.doctor.configuration import lacks_a_secret
from frazil.doctor.finding import Finding, not_asked
from frazil.doctor.ways import SLACK_SECONDS, ways
from frazil.materialize.layout import reads_keys_by_schema
from frazil.model.errors import SubjectMissingError
from frazil.model.settings import RegistrySettings
from frazil.model.spec import TableSpec
from frazil.ports import SchemaRegistry

REFUSES_ALL = "it refused an earlier request, or did not answer"


def ask_registry(registry: RegistrySettings | None, specs: Sequence[TableSpec], asking: Asking) -> Iterator[Finding]:
    if registry is None:
        yield not_asked("registry", "everything", "none is configured, and no table needs one")
        return
    found = ways(asking, [registry_address(registry)], tls_of_registry(registry))
    yield from found
    subjects = subjects_of(specs)
    if not subjects:
        named = any(spec.needs_registry for spec in specs)
        yield not_asked("registry", "subjects", "each record names its own" if named else "no table reads a schema")
    elif lacks_a_secret(registry.properties):
        yield from _not_asked(subjects, "a secret of `schema_registry` is missing")
    elif found[0].verdict == "failed":
        yield from _not_asked(subjects, "it cannot be reached")
    else:
        yield from ask_subjects(open_registry(registry), subjects, asking)


def subjects_of(specs: Sequence[TableSpec]) -> tuple[str, ...]:
    """Return the subjects of the tables' values and keys that are decoded by registered schemas."""
    read = (spec for spec in specs if spec.value_type is not None)
    values = (spec.value_subject.of(topic, "value") for spec in read for topic in spec.topics)
    keys = (spec.key_subject.of(topic, "key") for spec in specs if reads_keys_by_schema(spec) for topic in spec.topics)
    return tuple(dict.fromkeys(subject for subject in (*values, *keys) if subject is not None))


def ask_subjects(registry: SchemaRegistry, subjects: Sequence[str], asking: Asking) -> Iterator[Finding]:
    """Check each subject. A refusal that applies to all subjects ends the check."""
    patient = replace(asking, seconds=asking.seconds + SLACK_SECONDS)
    for number, subject in enumerate(subjects):
        finding = patient.ask(f"subject {subject}", lambda subject=subject: _subject(registry, subject))  # type: ignore[misc]
        yield finding
        if _refuses_all(finding):
            yield from _not_asked(subjects[number + 1 :], REFUSES_ALL)
            return


def _subject(registry: SchemaRegistry, subject: str) -> str:
    schema = registry.latest(subject)
    if schema is None:
        raise SubjectMissingError(
            f"the registry has no subject {subject}",
            hint="register it (many producers do with their first record), or set `subject` in the table spec",
        )
    return f"readable, latest schema id {schema.id} ({schema.format})"


def _refuses_all(finding: Finding) -> bool:
    said = any(words in finding.found for words in ("status code 401", "does not exist"))
    return finding.verdict == "failed" and (said or finding.is_silence)


def _not_asked(subjects: Sequence[str], why: str) -> Iterator[Finding]:
    return (not_asked("registry", f"subject {subject}", why) for subject in subjects)
