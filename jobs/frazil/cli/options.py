"""Shared parts of the commands: common options, loading the settings, and the format of examples."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from frazil.cli import config_name
from frazil.model.schemas import SchemaId, schema_id_of
from frazil.model.settings import Settings

Config = Annotated[
    Path,
    typer.Option(
        "--config",
        metavar="FILE",
        envvar=config_name.VARIABLE,
        help="The configuration.",
        dir_okay=False,
        callback=config_name.remember,
    ),
]
Tables = Annotated[
    list[str] | None,
    typer.Argument(metavar="TABLE", help="Tables as `table` or `database.table`. Default: all."),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
DEFAULT_CONFIG = Path(config_name.DEFAULT)


def settings_from(config: Path) -> Settings:
    """Load the settings with this process's environment, AWS Secrets Manager and the local services of the folder.

    Raises SettingError or SpecError.
    """
    from frazil.adapters.aws.secrets import SecretsManager  # noqa: PLC0415 - `--help` needs none of it
    from frazil.specs.load import load_settings  # noqa: PLC0415

    return load_settings(config, os.environ, SecretsManager(), local=local_address_in(config))


def schema_id_from(text: str) -> SchemaId:
    """Return the id of a schema as a command was given it. Raises Misuse for a text that is none."""
    from frazil.model.errors import Misuse  # noqa: PLC0415

    found = schema_id_of(text)
    if found is None:
        raise Misuse(
            f"{text} is no id of a schema: expected a number, or a UUID for tables with another wire_format",
            hint="`frazil dead-letters list TABLE` and `frazil status` show the ids",
        )
    return found


def connections_from(config: Path) -> Settings:
    """Load the settings for a command that needs no table spec. Raises the same errors as `settings_from`."""
    from frazil.adapters.aws.secrets import SecretsManager  # noqa: PLC0415
    from frazil.specs.load import load_connections  # noqa: PLC0415

    return load_connections(config, os.environ, SecretsManager(), local=local_address_in(config))


def local_address_in(config: Path) -> Callable[[str], str]:
    """Return the source of `${local:…}`: the services that `frazil local up` started for this configuration."""

    def address(name: str) -> str:
        from frazil.local.supervisor import running_address  # noqa: PLC0415 - only if the configuration uses it

        return running_address(name, local_directory(config))

    return address


def local_directory(config: Path) -> Path:
    """Return the folder in which the local services of a configuration keep their state."""
    return config.parent / ".frazil" / "local"


def example(*commands: str) -> str:
    """Return the last lines of a command's `--help`: example commands, which may end with a `# remark`."""
    title = "Example" if len(commands) == 1 else "Examples"
    return "\n".join(("\b", f"{title}:", *(f"  {command}" for command in commands)))
