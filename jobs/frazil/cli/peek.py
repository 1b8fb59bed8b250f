"""`frazil peek`: show some records of a topic, which needs no table."""

from __future__ import annotations

import json
import sys
from collections.abc import Collection, Iterator, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Annotated, Any
from uuid import UUID

import typer

from frazil.cli.config_name import with_config_name
from frazil.cli.options import DEFAULT_CONFIG, Config, Json, connections_from, example
from frazil.cli.screen import print_lines, shortened, width_of
from frazil.model.spelling import plural

if TYPE_CHECKING:
    from frazil.model.dead_letter import Reason
    from frazil.model.plan import TopicFacts
    from frazil.model.spec import TableSpec
    from frazil.peek import PeekedRecord

Topic = Annotated[str, typer.Argument(metavar="TOPIC", help="A topic of the cluster; it needs no table spec.")]
Count = Annotated[int, typer.Option("-n", "--count", min=1, max=10_000, help="How many records to show.")]

LEAST_WIDTH = 20
"""The least width of a value, even after a long column name."""


def register(app: typer.Typer) -> None:
    app.command("peek", epilog=example("frazil peek stock_trades", "frazil peek stock_trades -n 20 --json"))(peek)


def peek(topic: Topic, count: Count = 5, as_json: Json = False, config: Config = DEFAULT_CONFIG) -> None:
    """Show the newest records of a topic, decoded.

    No table is needed: records are decoded with the registry's schemas, or as a table spec says. Values without a
    schema are shown as JSON, text or bytes. A record that cannot be decoded is shown with the reason why it would
    become a dead letter. Nothing is written, and no consumer offset is committed. Long values
    are shortened to the width of the terminal; --json shows them in full.
    """
    from frazil.adapters.kafka.reader import KafkaReader  # noqa: PLC0415
    from frazil.adapters.kafka.topics import KafkaTopics  # noqa: PLC0415
    from frazil.adapters.registry import open_registry  # noqa: PLC0415
    from frazil.cli.topics import described  # noqa: PLC0415
    from frazil.model.policed import policed_by_all  # noqa: PLC0415
    from frazil.peek import peek as newest  # noqa: PLC0415
    from frazil.specs.select import read_with  # noqa: PLC0415

    settings = connections_from(config)
    facts = described(KafkaTopics(settings.kafka), topic)
    registry = None if settings.registry is None else open_registry(settings.registry)
    first = next((spec for spec in settings.tables if topic in spec.topics), None)
    spec = None if first is None else policed_by_all(read_with(settings, first))
    with closing(KafkaReader(settings.kafka, chunk_bytes=1 << 20)) as reader:
        found = newest(reader, registry, facts, count, spec=spec)
    if as_json:
        print(json.dumps([_to_json(each) for each in found], indent=2, ensure_ascii=False))
        return
    print("\n".join(line for each in found for line in lines(each, width=width_of(sys.stdout))))
    print_lines([summary(facts, found, settings.tables)], sys.stderr)


def lines(each: PeekedRecord, *, width: int) -> Iterator[str]:
    """Yield a line about the record, and one for each column or for the reject; values are shortened to the width."""
    from frazil.cli.text import moment  # noqa: PLC0415

    raw = each.raw
    at = "no timestamp" if raw.at is None else moment(raw.at)
    schema = "" if each.schema_id is None else f"  schema {each.schema_id}"
    yield f"{raw.topic}-{raw.partition} offset {raw.offset}  {at}{schema}"
    cells = {"(key)": _key(each)} | ({"(value)": "null"} if raw.value is None else {}) | dict(each.columns)
    if each.reject is not None:
        cells |= {"(value)": _preview(raw.value), "(dead letter)": _reason(each)}
    longest = max(map(len, cells))
    for name, value in cells.items():
        whole = name == "(dead letter)"
        yield from _cell(name, value, longest=longest, width=width, whole=whole)
    yield ""


def _cell(name: str, value: object, *, longest: int, width: int, whole: bool) -> Iterator[str]:
    import textwrap  # noqa: PLC0415

    from frazil.cli.text import shown  # noqa: PLC0415

    room = max(width - longest - 4, LEAST_WIDTH)
    text = shown(value)
    parts = textwrap.wrap(text, room) if whole else [shortened(text, room)]
    for number, part in enumerate(parts):
        yield f"  {'' if number else name:<{longest}}  {part}".rstrip()


def _key(each: PeekedRecord) -> object:
    return _preview(each.raw.key) if each.key is None else dict(each.key)


def _preview(content: bytes | None) -> str:
    from frazil.dead_letters import preview  # noqa: PLC0415

    return preview(content)


def _reason(each: PeekedRecord) -> str:
    assert each.reject is not None  # noqa: S101 - called only with a reject
    return str(each.reject)


def summary(facts: TopicFacts, found: Sequence[PeekedRecord], specs: Sequence[TableSpec]) -> str:
    """Return how many records are shown, and what to do next."""
    partitions = plural(len(facts.partitions), "partition")
    if not found:
        return f"{facts.topic} has no records in {partitions}"
    reasons = {None if each.reject is None else each.reject.reason for each in found}
    dead = sum(each.reject is not None for each in found)
    bad = f", {dead:,} of them would be {'a dead letter' if dead == 1 else 'dead letters'}" if dead else ""
    count = f"{plural(len(found), 'record')} of at most {facts.offsets:,}"
    return f"({count} in {partitions}{bad}; {_next(facts.topic, specs, reasons)})"


def _next(topic: str, specs: Sequence[TableSpec], reasons: Collection[Reason | None]) -> str:
    """Return what to do next: a table spec helps only if some record can become a row."""
    from frazil.model.dead_letter import Reason  # noqa: PLC0415

    spec = next((spec for spec in specs if topic in spec.topics), None)
    if spec is not None and reasons == {Reason.WRONG_MESSAGE}:
        return f"these values are another Protobuf message than {spec.source_file} reads: set its key `message`"
    if spec is not None and None not in reasons:
        return f"no value can be read as {spec.source_file} says: `value: {spec.value}`"
    if None not in reasons:
        return "no registered schema decodes these values; a table with `value: bytes` keeps any value"
    if spec is not None:
        return with_config_name(f"`frazil explain {spec.identifier}` shows what a batch would do")
    return with_config_name(f"`frazil init {topic}` writes a table spec")


def _to_json(each: PeekedRecord) -> dict[str, Any]:
    from frazil.cli.text import moment, plain  # noqa: PLC0415

    raw, reject = each.raw, each.reject
    return {
        "topic": raw.topic,
        "partition": raw.partition,
        "offset": raw.offset,
        "timestamp": None if raw.at is None else moment(raw.at),
        "schema_id": each.schema_id if isinstance(each.schema_id, int) else None,
        "schema_uuid": str(each.schema_id) if isinstance(each.schema_id, UUID) else None,
        "key": _preview_whole(raw.key) if each.key is None else plain(dict(each.key)),
        "value": None if raw.value is None or reject is not None else plain(dict(each.columns)),
        "dead_letter": None
        if reject is None
        else {"reason": reject.reason.value, "path": reject.path, "detail": reject.detail, "value": plain(raw.value)},
    }


def _preview_whole(content: bytes | None) -> str | None:
    """Return the content as text if it is UTF-8, else as hexadecimal digits."""
    try:
        return None if content is None else content.decode()
    except UnicodeDecodeError:
        return (content or b"").hex()
