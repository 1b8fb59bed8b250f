"""`frazil local`: a real Kafka, a real schema registry and a local AWS on this machine."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from frazil.cli.config_name import remark_on_origin, with_config_name
from frazil.cli.options import DEFAULT_CONFIG, Config, Json, example, local_directory
from frazil.model.errors import LocalServicesError
from frazil.model.settings import NOT_RUNNING_HOST
from frazil.model.spelling import plural

if TYPE_CHECKING:
    from frazil.local.supervisor import LocalServices, LocalStatus

Name = Annotated[str, typer.Argument(metavar="NAME", help="The sample to produce: stock_trades or sales_channel.")]
Rows = Annotated[int, typer.Option("--rows", min=1, help="How many records to produce.")]
Rate = Annotated[
    float | None, typer.Option("--rate", min=0.001, help="Records per second. Default: as fast as possible.")
]
Topic = Annotated[str | None, typer.Option("--topic", help="The topic. Default: the sample's name.")]
Partitions = Annotated[int, typer.Option("--partitions", min=1, help="Partitions of the topic, if it does not exist.")]
Seed = Annotated[int, typer.Option("--seed", help="Seed of the random records.")]
Also = Annotated[
    list[str] | None,
    typer.Argument(metavar="SERVICE", help="Services to start too: rest, an Iceberg REST catalog."),
]
Wipe = Annotated[bool, typer.Option("--wipe", help="Also delete the services' data.")]


WIPED = (
    "Tables in the warehouse stay, and do not continue from topics that are created again: delete the warehouse too, or"
    " name other tables in the specs."
)
USE_THESE = "write ${local:bootstrap_servers} and ${local:schema_registry_url} in it to use these services"


def register(app: typer.Typer) -> None:
    verbs = typer.Typer(no_args_is_help=True, help="Run Kafka, a registry and a local AWS on this machine.")
    verbs.command("up", epilog=example("frazil local up", "frazil local up rest"))(up)
    verbs.command("down", epilog=example("frazil local down", "frazil local down --wipe"))(down)
    verbs.command("status", epilog=example("frazil local status", "frazil local status --json"))(status)
    produce_examples = example("frazil local produce --rows 100000", "frazil local produce stock_trades --rate 100")
    verbs.command("produce", epilog=produce_examples)(produce)
    app.add_typer(verbs, name="local", epilog=example("frazil local up"))


def up(also: Also = None, config: Config = DEFAULT_CONFIG) -> None:
    """Start the local services, and come back when all of them answer.

    Their data is in .frazil/local/ beside the configuration.
    """
    from frazil.local import supervisor  # noqa: PLC0415

    services = supervisor.up((*supervisor.USUAL, *(also or ())), local_directory(config))
    print(f"bootstrap_servers    {services.bootstrap_servers}")
    print(f"schema_registry_url  {services.schema_registry_url}")
    print(f"aws_endpoint_url     {services.aws_endpoint_url}")
    if "rest" in (also or ()):
        print(f"rest_catalog_url     {services.rest_catalog_url}")
    if _names_others(config):
        print(f"{config} uses other addresses: {remark_on_origin() or USE_THESE}.", file=sys.stderr)
    print(with_config_name("`frazil local down` stops them."), file=sys.stderr)


def down(config: Config = DEFAULT_CONFIG, wipe: Wipe = False) -> None:
    """Stop the local services; what they keep stays, unless --wipe."""
    from frazil.local import supervisor  # noqa: PLC0415

    directory = local_directory(config)
    stopped = supervisor.down(directory, wipe=wipe)
    print(f"stopped {', '.join(stopped)}" if stopped else "no local service was running", file=sys.stderr)
    if directory.exists():
        print(f"{'deleted' if wipe else 'kept'} their data in {directory}", file=sys.stderr)
        if wipe:
            print(WIPED, file=sys.stderr)


def status(config: Config = DEFAULT_CONFIG, as_json: Json = False) -> None:
    """Show which local services run, and where they answer."""
    from frazil.local import supervisor  # noqa: PLC0415

    found = supervisor.status(local_directory(config))
    print(json.dumps(found.as_json(), indent=2) if as_json else "\n".join(_lines(found)))


def produce(
    name: Name = "stock_trades",
    rows: Rows = 10_000,
    rate: Rate = None,
    topic: Topic = None,
    partitions: Partitions = 6,
    seed: Seed = 0,
    config: Config = DEFAULT_CONFIG,
) -> None:
    """Append sample records to a topic of the local broker."""
    from frazil.local import produce as samples  # noqa: PLC0415

    services = _running(local_directory(config))
    done = samples.produce(name, rows, services=services, rate=rate, topic=topic, partitions=partitions, seed=seed)
    print(f"{plural(done.rows, 'record')} appended to {done.topic} in {done.seconds:.1f} s", file=sys.stderr)


def _running(directory: Path) -> LocalServices:
    """Return the addresses of the running services. Raises LocalServicesError if a required one does not run."""
    from frazil.local import supervisor  # noqa: PLC0415

    addresses = {name: supervisor.running_address(name, directory) for name in supervisor.OWNERS}
    for name in ("bootstrap_servers", "schema_registry_url"):
        if NOT_RUNNING_HOST in addresses[name]:
            raise LocalServicesError(
                f"the local {supervisor.OWNERS[name]} of {directory} is not running", hint="run `frazil local up`"
            )
    return supervisor.LocalServices(**addresses)


def _names_others(config: Path) -> bool:
    """Return whether the configuration exists and does not refer to the local services."""
    return config.is_file() and "${local:" not in config.read_text(encoding="utf-8", errors="replace")


def _lines(found: LocalStatus) -> list[str]:
    states = {(True, True): "ready", (True, False): "starting"}
    lines = [
        f"{service.name:<9} {states.get((service.running, service.ready), 'stopped'):<9} {service.address}"
        for service in found.services
    ]
    return lines or [f"no services have been started in {found.directory}"]
