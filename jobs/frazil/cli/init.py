"""`frazil init`: table specs from topics."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterator, Sequence
from contextlib import closing
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from frazil.cli.config_name import with_config_name
from frazil.cli.options import DEFAULT_CONFIG, Config, connections_from, example
from frazil.cli.screen import print_lines
from frazil.model.errors import FrazilError, IncompatibleSchemaError, Misuse, SubjectMissingError, TopicMissingError

if TYPE_CHECKING:
    from frazil.adapters.kafka.topics import KafkaTopics
    from frazil.draft_spec import Draft
    from frazil.model.settings import Settings

Names = Annotated[list[str] | None, typer.Argument(metavar="TOPIC", help="Topics of the cluster.")]
Like = Annotated[
    str | None,
    typer.Option("--like", metavar="PATTERN", help="Also all topics with such a name; * matches any characters."),
]
SAMPLE = 10
"""The number of records from which the format of keys is guessed."""


def register(app: typer.Typer) -> None:
    app.command("init", epilog=example("frazil init stock_trades", "frazil init --like 'shop.*'"))(init)


def init(topics: Names = None, like: Like = None, config: Config = DEFAULT_CONFIG) -> None:
    """Write table specs for topics without one.

    The formats come from the registry and the newest records; values without a schema become one column. The specs
    are written to the folder in `tables`, with comments that explain their keys. Existing files are never changed, so
    the command can be run again when topics are added. --like skips topics whose names start with an underscore and
    topics that cannot become tables.
    """
    from frazil.adapters.kafka.topics import KafkaTopics  # noqa: PLC0415

    if not topics and like is None:
        raise Misuse("no topic was named", hint="name one, or use --like 'shop.*'; `frazil init --help` says more")
    settings = connections_from(config)
    broker = KafkaTopics(settings.kafka)
    matching = _matching(broker, like)
    failures = list(_write_all(settings, broker, list(dict.fromkeys([*(topics or ()), *matching])), named=topics or ()))
    if failures:
        from frazil.cli.check import together  # noqa: PLC0415

        raise together(failures, says=f"{len(failures)} topics have no spec.", command="frazil init")


def _matching(broker: KafkaTopics, like: str | None) -> Sequence[str]:
    from frazil.cli.topics import visible  # noqa: PLC0415

    if like is None:
        return ()
    names = [name for name in visible(broker) if fnmatchcase(name, like)]
    if not names:
        raise TopicMissingError(
            f"no topic of the cluster has a name like {like}",
            hint="* matches any characters, and a dot only a dot: `--like 'orders*'`; quote the pattern",
        )
    return names


def _write_all(
    settings: Settings, broker: KafkaTopics, topics: Sequence[str], *, named: Collection[str]
) -> Iterator[FrazilError]:
    """Write the missing specs; yield an error for each topic in `named` that cannot have a spec."""
    known = {topic: spec.source_file for spec in settings.tables for topic in spec.topics}
    folder = Path(settings.tables_folder)
    folder.mkdir(parents=True, exist_ok=True)
    names = (name for spec in settings.tables for name in (spec.identifier, spec.dead_letters_identifier))
    taken = {name.rpartition(".")[2] for name in names}
    taken |= {file.stem for file in folder.iterdir()}
    for topic in topics:
        if topic in known:
            print(f"{topic}: has a spec in {known[topic]}", file=sys.stderr)
            continue
        try:
            draft = _draft(settings, broker, topic, taken)
        except (SubjectMissingError, IncompatibleSchemaError, TopicMissingError) as failure:
            if topic in named:
                yield failure
            else:
                print_lines([f"{topic}: left out: {failure.what.removeprefix(f'{topic}: ')}"], sys.stderr)
            continue
        path = _write(draft, folder)
        taken.add(draft.name)
        written = f"wrote {path}"
        if not sys.stdout.isatty():
            print(path)
            written = "wrote a spec"
        next_step = with_config_name(f"`frazil explain {draft.name}` shows what a batch would do")
        print_lines([f"{topic}: {written}; {next_step}"], sys.stderr)


def _draft(settings: Settings, broker: KafkaTopics, topic: str, taken: Collection[str]) -> Draft:
    from frazil.adapters.kafka.reader import KafkaReader  # noqa: PLC0415
    from frazil.adapters.registry import open_registry  # noqa: PLC0415
    from frazil.cli.topics import described  # noqa: PLC0415
    from frazil.draft_spec import draft  # noqa: PLC0415
    from frazil.peek import peek  # noqa: PLC0415

    facts = described(broker, topic)
    registry = None if settings.registry is None else open_registry(settings.registry)
    with closing(KafkaReader(settings.kafka, chunk_bytes=1 << 20)) as reader:
        sample = peek(reader, registry, facts, SAMPLE)
    return draft(registry, facts, sample, taken=taken)


def _write(draft: Draft, folder: Path) -> Path:
    """Create the file; fails if another process has created it meanwhile."""
    path = folder / f"{draft.name}.yaml"
    with path.open("x", encoding="utf-8") as file:
        file.write(draft.text)
    return path
