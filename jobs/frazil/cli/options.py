"""What the verbs have in common: the options that they share, the settings, and how examples are shown."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from frazil.cli import config_name
from frazil.model.spec import Settings

Config = Annotated[
    Path,
    typer.Option(
        "--config",
        metavar="FILE",
        envvar="FRAZIL_CONFIG",
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
DEFAULT_CONFIG = Path("frazil.yaml")


def settings_from(config: Path) -> Settings:
    """The settings, with this process's environment, AWS Secrets Manager and the local services of the folder.

    Raises SettingError or SpecError.
    """
    from frazil.adapters.secrets import SecretsManager  # noqa: PLC0415 - `--help` needs none of it
    from frazil.specs.load import load_settings  # noqa: PLC0415

    return load_settings(config, os.environ, SecretsManager(), local=local_address_in(config))


def connections_from(config: Path) -> Settings:
    """The settings for a command that needs no table spec. Raises as `settings_from`."""
    from frazil.adapters.secrets import SecretsManager  # noqa: PLC0415
    from frazil.specs.load import load_connections  # noqa: PLC0415

    return load_connections(config, os.environ, SecretsManager(), local=local_address_in(config))


def local_address_in(config: Path) -> Callable[[str], str]:
    """Fills in `${local:…}` from the services that `frazil local up` started beside this configuration."""

    def address(name: str) -> str:
        from frazil.local.supervisor import running_address  # noqa: PLC0415 - only where the configuration asks for it

        return running_address(name, local_directory(config))

    return address


def local_directory(config: Path) -> Path:
    """Where the local services of a configuration keep their state."""
    return config.parent / ".frazil" / "local"


def example(*commands: str) -> str:
    """The last lines of a verb's `--help`; each command may carry a `# remark`."""
    title = "Example" if len(commands) == 1 else "Examples"
    return "\n".join(("\b", f"{title}:", *(f"  {command}" for command in commands)))
