"""`frazil`: register the commands, and turn every outcome into an exit status.

0 done, 1 failed, 2 misuse, 3 topics or subjects missing (only `materialize --create-only`), 130 interrupted, 141 the
reader of stdout ended first, such as `head`.
Data goes to stdout, all else to stderr.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Sequence
from typing import Annotated, NoReturn

import typer

from frazil.cli import (
    check,
    config_name,
    connect,
    cost,
    dead_letters,
    demo,
    doctor,
    export,
    forget,
    init,
    local,
    logs,
    maintain,
    materialize,
    pause,
    peek,
    plan_schema,
    query,
    rebuild,
    recover,
    status,
    transform,
    verify,
)
from frazil.cli.printed_errors import named, print_error
from frazil.model.errors import FrazilError, MissingToolError

VERBS = (
    demo,
    local,
    peek,
    init,
    check,
    plan_schema,
    materialize,
    status,
    cost,
    verify,
    query,
    connect,
    transform,
    export,
    dead_letters,
    rebuild,
    recover,
    maintain,
    forget,
    pause,
    doctor,
)
"""The commands in the order of `--help`. Each has `register(app)`, and imports slow modules only when it runs."""

EXTRAS = {
    "duckdb": "duckdb",
    "deltalake": "delta",
    "snowflake": "snowflake",
    "aws_msk_iam_sasl_signer": "msk",
    "boto3": "glue",
    "botocore": "glue",
    "psutil": "local",
    "jgo": "local",
    "jdk": "local",
    "moto": "local",
}
"""The extra of our distribution that installs a package, by the package's import name."""

READER_ENDED = 128 + 13
"""The exit status of a program that SIGPIPE ends."""

EPILOG = (
    "Every command has --help with an example. Exit status: 0 done, 1 failed, 2 misuse, 3 topics or subjects missing"
    " (only `materialize --create-only`), 130 interrupted, 141 the reader of the output ended first, such as `head`."
)


def build_app() -> typer.Typer:
    app = typer.Typer(
        name="frazil",
        help="Write Kafka topics to Iceberg tables in your own account, exactly once and provably.",
        epilog=EPILOG,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["--help", "-h"], "max_content_width": 100},
    )
    app.callback()(_before_every_verb)
    for verb in VERBS:
        verb.register(app)
    return app


def main() -> NoReturn:
    """The entry point of `frazil`."""
    config_name.remember_program(sys.argv[0])
    sys.exit(_flushed(run(sys.argv[1:])))


def _flushed(status: int) -> int:
    """Write what is left of the output; Python's own attempt at exit would print an error if its reader has ended."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return READER_ENDED
    return status


def run(arguments: Sequence[str], *, config_called: str | None = None) -> int:
    """Carry out one command and return the exit status.

    Messages refer to the configuration by the value of `--config`, or as `config_called` if `--config` is only a copy.
    """
    with config_name.called(config_called):
        return _run(arguments)


def _run(arguments: Sequence[str]) -> int:
    try:
        build_app()(list(arguments), prog_name="frazil")
    except SystemExit as ended:
        return _status(ended)
    except FrazilError as error:
        print_error(error)
        return error.exit_status
    except KeyboardInterrupt:
        return 130
    except ModuleNotFoundError as missing:
        return _without_a_package(missing)
    except Exception:  # noqa: BLE001 - an unexpected error is shown with its stack trace, once
        traceback.print_exc()
        return 1
    return 0


def _status(ended: SystemExit) -> int:
    if isinstance(ended.__context__, BrokenPipeError):  # Click exits with 1
        return READER_ENDED
    return ended.code if isinstance(ended.code, int) else int(ended.code is not None)


def _without_a_package(missing: ModuleNotFoundError) -> int:
    """Say which extra installs a missing package. Any other missing package is a defect, shown with its stack trace."""
    extra = EXTRAS.get((missing.name or "").partition(".")[0])
    if extra is None:
        traceback.print_exc()
        return 1
    error = MissingToolError(
        f"the package {missing.name} is not installed", hint=f"run `pip install 'frazil[{extra}]'`, then try again"
    )
    print(named(error), file=sys.stderr)
    return error.exit_status


def _print_version(wanted: bool) -> None:
    if not wanted:
        return
    from importlib.metadata import PackageNotFoundError, version  # noqa: PLC0415 - slow, and rarely needed

    try:
        print(f"frazil {version('frazil')}")
    except PackageNotFoundError:
        print("frazil (run from a folder, not installed)")
    raise typer.Exit


def _before_every_verb(
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_print_version, help="Print the version and exit.")
    ] = False,
) -> None:
    del version
    logs.configure(sys.stderr)


if __name__ == "__main__":
    main()
