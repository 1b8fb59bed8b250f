"""`frazil demo`: demonstrate exactly-once on this machine."""

from __future__ import annotations

import typer

from frazil.cli.options import example


def register(app: typer.Typer) -> None:
    app.command("demo", epilog=example("frazil demo"))(demo)


def demo() -> None:
    """Show exactly-once on this machine, in one to two minutes.

    It produces stock trades to its own Kafka broker, materializes them, kills the run between stage and publish, runs
    again, and proves that every record is in the table exactly once. In a checkout, the example of sales channels
    follows: masked, each event once, and exported for a spreadsheet. All its files are in .frazil/demo/.
    """
    from frazil.demo.story import main  # noqa: PLC0415 - imports the local services

    raise typer.Exit(main())
