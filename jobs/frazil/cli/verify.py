"""`frazil verify`: prove that tables are complete."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager, nullcontext
from typing import TYPE_CHECKING, Annotated

import typer

from frazil.cli.config_name import with_config_name
from frazil.cli.options import DEFAULT_CONFIG, Config, Json, Tables, example, settings_from
from frazil.cli.screen import print_lines
from frazil.model.spelling import plural

if TYPE_CHECKING:
    from frazil.adapters.kafka.written_offsets import WrittenOffsets
    from frazil.model.settings import Settings
    from frazil.proof.verification import Check, Verification
    from frazil.verify.against_kafka import KafkaSide
    from frazil.verify.scan import Watch

AgainstKafka = Annotated[bool, typer.Option("--against-kafka", help="Compare with every record that Kafka still has.")]

Explain = Annotated[
    bool, typer.Option("--explain", help="Show which batches read which offsets, and all other commits.")
]


def register(app: typer.Typer) -> None:
    app.command(
        "verify",
        epilog=example(
            "frazil verify",
            "frazil verify stock_trades --against-kafka",
            "frazil verify stock_trades --explain",
            "frazil verify --json",
        ),
    )(verify)


def verify(
    tables: Tables = None,
    against_kafka: AgainstKafka = False,
    explain: Explain = False,
    as_json: Json = False,
    config: Config = DEFAULT_CONFIG,
) -> None:
    """Prove that no record is missing or duplicated.

    Each table alone is enough for the proof; the exit status is 1 if it fails. The counts of rows and dead letters, and
    the sums of their offsets per partition, are compared with the figures that every batch has stored. Every file is
    checked. Commits of other writers are listed and are not failures.

    --explain reads the receipts in the retained snapshots, and proves that each batch began where the one before it
    ended. It lists the offsets of each partition with their batches, and how many offsets have no committed record;
    with --against-kafka also why: compaction, aborted transactions, or their markers.
    """
    from frazil.adapters.iceberg.lake import IcebergLake  # noqa: PLC0415
    from frazil.specs.select import read_together, select_tables  # noqa: PLC0415
    from frazil.verify.group import verify_together  # noqa: PLC0415

    if against_kafka:
        _bound_memory()
    settings = settings_from(config)
    specs = select_tables(settings, tables or ())
    lake = IcebergLake(settings.catalog)
    found: list[Verification] = []
    with (
        _kafka(settings) if against_kafka else nullcontext() as side,
        _written(settings) if against_kafka and explain else nullcontext() as written,
    ):
        for together in read_together(specs):
            with _watched(together[0].pipeline.name) as watch:
                results = verify_together(lake, together, kafka=side, watch=watch)
            if explain:
                from frazil.verify.gap_causes import with_causes  # noqa: PLC0415
                from frazil.verify.ranges import with_chains  # noqa: PLC0415

                results = with_chains(lake, together, results)
                results = with_causes(results, written) if written is not None else results
            found += results
            for each in () if as_json else results:
                print_lines(lines(each), sys.stdout, hanging=7)
    if as_json:
        print(json.dumps([each.to_json() for each in found], indent=2))
    if not all(each.clean for each in found):
        raise typer.Exit(1)


def _bound_memory() -> None:
    from frazil.adapters.allocators import give_back_freed_memory  # noqa: PLC0415

    give_back_freed_memory()


@contextmanager
def _kafka(settings: Settings) -> Iterator[KafkaSide]:
    from frazil.adapters.kafka.reader import KafkaReader  # noqa: PLC0415
    from frazil.adapters.kafka.topics import KafkaTopics  # noqa: PLC0415
    from frazil.adapters.registry import open_registry  # noqa: PLC0415
    from frazil.verify.against_kafka import CHUNK_BYTES, KafkaSide  # noqa: PLC0415

    with (
        closing(KafkaReader(settings.kafka, chunk_bytes=CHUNK_BYTES)) as reader,
        closing(open_registry(settings.registry)) as registry,
    ):
        yield KafkaSide(KafkaTopics(settings.kafka), reader, registry)


def _written(settings: Settings) -> WrittenOffsets:
    from frazil.adapters.kafka.written_offsets import WrittenOffsets  # noqa: PLC0415

    return WrittenOffsets(settings.kafka)


@contextmanager
def _watched(table: str) -> Iterator[Watch]:
    """Show a progress bar on stderr if it is a terminal."""
    from frazil.verify.table import unwatched  # noqa: PLC0415

    if not sys.stderr.isatty():
        yield unwatched
        return
    from rich.console import Console  # noqa: PLC0415
    from rich.progress import Progress, TaskID  # noqa: PLC0415

    with Progress(console=Console(stderr=True), transient=True) as progress:
        bars: dict[str, TaskID] = {}

        def watch(what: str, done: int, total: int) -> None:
            if what not in bars:
                bars[what] = progress.add_task(f"{table}: {what}", total=total)
            progress.update(bars[what], completed=done)

        yield watch


def lines(verification: Verification) -> Iterator[str]:
    """Yield the proof of one table as text: the verdict, then a line per check with its findings and notes below."""
    yield f"{verification.table}: {_verdict(verification)}"
    for check in verification.checks:
        yield f"  {'ok  ' if check.passed else 'FAIL'} {check.name}: {check.says if check.passed else _failed(check)}"
        yield from (f"         {finding.kind}: {finding}" for finding in check.findings)
        yield from (f"         note: {with_config_name(note)}" for note in check.notes)
    if verification.chain is not None:
        from frazil.cli.chain_lines import chain_lines  # noqa: PLC0415 - arithmetic of the proof takes time to load

        yield from chain_lines(verification.chain)


def _failed(check: Check) -> str:
    return plural(len(check.findings), "finding")


def _verdict(verification: Verification) -> str:
    from frazil.cli.text import moment  # noqa: PLC0415

    through = verification.complete_through
    if not verification.checks:
        return "the table does not exist: nothing to verify"
    if verification.epoch is None:
        return "NOT PROVEN"
    complete = "" if through is None else f", complete through {moment(through)}"
    foreign = ""
    if verification.foreign.snapshots:
        foreign = f", with {plural(verification.foreign.snapshots, 'foreign commit')}"
    proven = "proven" if verification.clean else "NOT PROVEN"
    none_yet = "" if verification.epoch else ", no batch yet"
    return f"{proven} at epoch {verification.epoch}{none_yet}, snapshot {verification.snapshot_id}{complete}{foreign}"
