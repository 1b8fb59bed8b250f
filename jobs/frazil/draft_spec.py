"""Table specs that `frazil init` writes for topics, from what the registry and the newest records say."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from frazil.formats.mapped import Mapped
from frazil.formats.open import is_known, map_schema
from frazil.model.errors import IncompatibleSchemaError, SubjectMissingError
from frazil.model.plan import TopicFacts
from frazil.model.schemas import RegisteredSchema
from frazil.model.spec import CONFLUENT, SCHEMA_TYPES, FormatSettings, WireFormat
from frazil.model.spelling import plural
from frazil.peek import PeekedRecord, plain_format_of, wire_format_of
from frazil.ports import SchemaRegistry
from frazil.specs import table_keys as keys
from frazil.specs.inferred_fields import inferred_fields
from frazil.specs.keys import Key
from frazil.specs.names import safe_name

WIDTH = 100
FORMAT_NAMES: Mapping[str, str] = {schema_type: name for name, schema_type in SCHEMA_TYPES.items()}
REFERENCE = "docs/reference/tables.md"


@dataclass(frozen=True, slots=True)
class Draft:
    """A spec that is to be written: the stem of its file's name, and its text."""

    topic: str
    name: str
    text: str


@dataclass(frozen=True, slots=True)
class _Values:
    """What is known of a topic's values: their format, the `subject` to write, and notes on the columns.

    A `subject` of None is the default. `message` is written if the format has one.
    """

    word: str
    subject: str | None
    notes: tuple[str, ...]
    message: str | None = None


def draft(
    registry: SchemaRegistry | None, facts: TopicFacts, sample: Sequence[PeekedRecord], *, taken: Collection[str]
) -> Draft:
    """Write a spec for a topic; every key that it does not set is in it as a comment with its default.

    `taken` are names of tables and files that the new one must not have. Raises SubjectMissingError if nothing tells
    the format of the values, and IncompatibleSchemaError if this release cannot make a table of them.
    """
    wire_format = wire_format_of([each.raw for each in sample])
    values = _values(registry, facts.topic, sample, _subject_of(facts.topic, "value", wire_format))
    name = safe_name(facts.topic)
    free = _free(name, taken)
    lines = [
        *_comment(f"A table of the topic {facts.topic}, which has {_size(facts)}."),
        *_comment(f"Keys that start with # show their defaults. All keys: {REFERENCE}"),
        "",
        f"topic: {_text(facts.topic)}",
        "",
        *_entry(keys.TABLE, None if free == name else free, default=name),
        *_entry(keys.VALUE, values.word, notes=values.notes),
        *(_entry(keys.SUBJECT, values.subject) if values.word in SCHEMA_TYPES else _fields_entry(values, sample)),
        *(_entry(keys.MESSAGE, values.message) if values.message else ()),
        *([] if wire_format == CONFLUENT else _entry(keys.WIRE_FORMAT, wire_format)),
        *_key_entry(registry, facts.topic, sample, _subject_of(facts.topic, "key", wire_format)),
        *_entry(keys.PARTITION_BY, None, default="[day(kafka_timestamp)]"),
        *(line for key in _DEFAULTS for line in _entry(key, None)),
        *_entry(keys.ON_TOMBSTONE, None, default="row"),
    ]
    return Draft(facts.topic, free, "\n".join(lines).rstrip() + "\n")


_DEFAULTS: tuple[Key[object], ...] = (
    keys.READERS, keys.WRITE, keys.START, keys.TRIGGER, keys.ON_BAD_RECORD, keys.LIMIT,
)  # fmt: skip


def _subject_of(topic: str, part: Literal["value", "key"], wire_format: WireFormat) -> str:
    return topic if wire_format == "glue" and part == "value" else f"{topic}-{part}"


def _values(registry: SchemaRegistry | None, topic: str, sample: Sequence[PeekedRecord], subject: str) -> _Values:
    """Return the format of the values: that of the subject named after the topic, else that of the newest records."""
    latest = None if registry is None else registry.latest(subject)
    named = _by_frequency(each.message for each in sample)
    if latest is not None:
        return _by_schema(topic, latest, f"the newest of the subject {subject}", None, named)
    decoded = [each.schema_id for each in sample if each.schema_id is not None and each.reject is None]
    schema = registry.by_id(decoded[-1]) if decoded and registry is not None else None
    if schema is not None and registry is not None:
        others = any(each != f"{topic}-key" for each in registry.subjects_under(f"{topic}-"))
        return _by_schema(topic, schema, "which the newest record names", "topic-record" if others else "record", named)
    word = plain_format_of([each.raw for each in sample])
    if word is None:
        raise SubjectMissingError(
            f"{topic}: the schema registry has no subject {subject}, and no newest record names a schema",
            hint=f"run `frazil peek {topic}` to see records; a producer registers the schema with its first record",
        )
    return _Values(word, None, (_PLAIN[word], *_garbage(sample), "All of them become the column `value`."))


def _garbage(sample: Sequence[PeekedRecord]) -> Iterator[str]:
    """Yield how many values do not have the format of the others."""
    count = sum(each.reject is not None for each in sample)
    if count:
        others = "is not, and would be a dead letter" if count == 1 else "are not, and would be dead letters"
        yield f"{count} of {plural(len(sample), 'record')} {others}."


_PLAIN = {
    "json": "The newest values are JSON, and have no schema.",
    "string": "The newest values are text, and have no schema.",
    "bytes": "The newest values are not text, and have no schema.",
}


def _fields_entry(values: _Values, sample: Sequence[PeekedRecord]) -> Iterator[str]:
    """Yield the fields that fit a sample of JSON, as a comment: they may not fit later values."""
    good = [each.raw.value for each in sample if each.raw.value and each.reject is None]
    texts = [value.decode() for value in good] if values.word == "json" else []
    fields = inferred_fields(texts)
    if fields:
        yield from _comment(keys.FIELDS.description)
        yield from _comment("These fields fit the newest values; a later value of another type is a dead letter:")
        yield "# fields:"
        yield from (f"#   {name}: {declared}" for name, declared in fields.items())
        yield ""


def _by_frequency(messages: Iterable[str | None]) -> Sequence[str]:
    """Return the different messages that records name, the most frequent one first."""
    return [name for name, _ in Counter(each for each in messages if each is not None).most_common()]


def _by_schema(
    topic: str, schema: RegisteredSchema, found_in: str, subject: str | None, named: Sequence[str]
) -> _Values:
    mapped = _mapped(topic, schema, named)
    word, message = FORMAT_NAMES[schema.format], mapped.record if schema.format == "PROTOBUF" else None
    notes = [*_columns(schema, found_in, mapped), *_other_messages(message, named)]
    return _Values(word, subject, tuple(notes), message)


def _other_messages(message: str | None, named: Sequence[str]) -> Iterator[str]:
    others = [each for each in named if each != message]
    if others:
        yield (
            f"The newest records are also {' and '.join(others)}. They are bad records of this table: write another"
            f" spec for {'it' if len(others) == 1 else 'each'}, with its own `table` and `message`."
        )


def _mapped(topic: str, schema: RegisteredSchema, named: Sequence[str]) -> Mapped:
    if not is_known(schema) or schema.format not in FORMAT_NAMES:
        raise IncompatibleSchemaError(
            f"{topic}: schema {schema.id} is {schema.format}, expected {' or '.join(sorted(FORMAT_NAMES))}",
            hint=f"{schema.format} values are not supported in this release: leave the topic out",
        )
    mapped = _of_named_message(schema, named)
    if mapped.findings:
        found = "; ".join(f"{each.path}: {each.problem}" for each in mapped.findings)
        raise IncompatibleSchemaError(f"{topic}: schema {schema.id} cannot become columns: {found}", hint=_REGISTER)
    return mapped


def _of_named_message(schema: RegisteredSchema, named: Sequence[str]) -> Mapped:
    """Map the message that most records name, if the schema has it, else its first one."""
    first = map_schema(schema)
    known = {first.record, *first.other_records}
    message = next((each for each in named if each in known), first.record)
    return first if message == first.record else map_schema(schema, FormatSettings(message=message))


_REGISTER = "register a schema without these fields, then run `frazil init` again"


def _key_entry(
    registry: SchemaRegistry | None, topic: str, sample: Sequence[PeekedRecord], subject: str
) -> Iterator[str]:
    schema = None if registry is None else registry.latest(subject)
    if schema is not None and schema.format in FORMAT_NAMES and is_known(schema):
        note = f"Schema {schema.id}, the newest of the subject {subject}."
        yield from _entry(keys.KEY, FORMAT_NAMES[schema.format], notes=[note])
        if schema.format == "PROTOBUF":
            message = _of_named_message(schema, _by_frequency(each.key_message for each in sample)).record
            yield from _entry(keys.KEY_MESSAGE, message)
        return
    given = [each.raw.key for each in sample if each.raw.key is not None]
    if not given:
        yield from _entry(keys.KEY, None, notes=["The newest records have no key."] if sample else [])
    elif all(_is_text(key) for key in given):
        yield from _entry(keys.KEY, "string", notes=["The newest keys are text, and have no schema."])
    else:
        yield from _entry(keys.KEY, "bytes", notes=["The newest keys are not text, and have no schema."])


def _is_text(key: bytes) -> bool:
    try:
        return key.decode().isprintable()
    except UnicodeDecodeError:
        return False


def _columns(schema: RegisteredSchema, found_in: str, mapped: Mapped) -> Iterator[str]:
    yield f"Schema {schema.id}, {found_in}, has these columns:"
    for column in mapped.columns:
        doc = " ".join("".join(c if c.isprintable() else " " for c in column.doc or "").split())
        yield f"  {column.name}: {column.type}{f' ({doc})' if doc else ''}"


def _entry(
    key: Key[object], value: str | None, *, default: str = "", notes: Iterator[str] | Sequence[str] = ()
) -> Iterator[str]:
    """A key with its description; as a comment with its default where no value is given."""
    yield from _comment(key.description)
    for note in notes:
        yield from _comment(note)
    shown = default or (key.default if isinstance(key.default, str) else "")
    yield f"# {key.name}: {shown}" if value is None else f"{key.name}: {value}"
    yield ""


def _comment(text: str) -> Iterator[str]:
    indent = " " * (len(text) - len(text.lstrip()))
    for line in textwrap.wrap(text.strip(), WIDTH - len(indent) - 2, break_on_hyphens=False):
        yield f"# {indent}{line}"


def _text(topic: str) -> str:
    """Return a topic's name as YAML reads it: in quotes if it would be no text without them."""
    return f'"{topic}"' if topic.lower() == "null" or topic == "-" else topic


def _size(facts: TopicFacts) -> str:
    return f"{plural(len(facts.partitions), 'partition')} and at most {plural(facts.offsets, 'record')}"


def _free(name: str, taken: Collection[str]) -> str:
    """The name, with a number behind it if there is one like it."""
    number, free = 1, name
    while free in taken:
        number += 1
        free = f"{name}_{number}"
    return free
