"""Run a verb of scripts/deploy.sh, or a single step.

`python -m infra.deploy VERB|STEP [STACK...] --profile=… --environment=…`. Exit status: 0 done, 1 failed, 2 misuse,
130 interrupted.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Sequence
from types import FrameType
from typing import NoReturn

from frazil.model.errors import FrazilError
from infra.deploy.console import tell
from infra.deploy.session import Session
from infra.deploy.verbs import NAMES, asks_for_secrets, calls_of
from infra.settings.scalars import FEWEST_RETAINED
from infra.terraform.causes import of_aws

INTERRUPTED = 130
AS_CTRL_C = (signal.SIGTERM, signal.SIGHUP)
"""Signals that end a run as the first Ctrl-C does."""


def main() -> NoReturn:
    _end_as_on_ctrl_c()
    status = run(sys.argv[1:])
    if status == INTERRUPTED:  # Ctrl-C also ended the Node.js child; the exit handler that stops it would fail
        os._exit(status)
    sys.exit(status)


def _end_as_on_ctrl_c() -> None:
    """Finish the current stack on SIGTERM and on a closed terminal too, unless `nohup` has SIGHUP ignored.

    Only a second Ctrl-C stops Terraform. Shell and kernel both send SIGHUP when a terminal is closed, and a CI system
    sends SIGTERM after SIGINT.
    """
    for number in (signal.SIGINT, *AS_CTRL_C):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _interrupt)


def _interrupt(_number: int, _frame: FrameType | None) -> NoReturn:
    for number in AS_CTRL_C:
        signal.signal(number, _ignore)
    raise KeyboardInterrupt


def _ignore(_number: int, _frame: FrameType | None) -> None:
    """Do nothing. With SIG_IGN, Python prints a traceback for a signal that has already arrived."""


def run(arguments: Sequence[str]) -> int:
    """Run the steps until one fails, and return the exit status."""
    given = _parser().parse_args(arguments)
    session = Session(given)
    try:
        with session.alone():
            _work(session, given, arguments)
    except FrazilError as error:
        return _failed(error)
    except KeyboardInterrupt:
        return INTERRUPTED
    except Exception as problem:
        of_the_account = of_aws(problem, session.doing)
        if of_the_account is None:
            raise
        return _failed(of_the_account)
    return 0


def _work(session: Session, given: argparse.Namespace, arguments: Sequence[str]) -> None:
    if asks_for_secrets(given.step, given.stacks):
        session.ask_for_secrets()
    for call in calls_of(given.step, given.stacks):
        if given.debug:
            tell(f"+ {' '.join(('.venv/bin/python -m infra.deploy', str(call), *_options(arguments)))}")
        session.run(call)


def _options(arguments: Sequence[str]) -> list[str]:
    return [argument for argument in arguments if argument.startswith("--")]


def _failed(error: FrazilError) -> int:
    tell(f"{type(error).__name__}: {error}")
    return error.exit_status


def _counted(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected a whole number of at least 1, found {text}")
    return int(text)


def _retained(text: str) -> int:
    if not text.isdecimal() or int(text) < FEWEST_RETAINED:
        raise argparse.ArgumentTypeError(f"expected a whole number of at least {FEWEST_RETAINED}, found {text}")
    return int(text)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=".venv/bin/python -m infra.deploy", description=__doc__)
    parser.add_argument("step", choices=NAMES, metavar="VERB|STEP", help=f"one of {', '.join(NAMES)}")
    parser.add_argument("stacks", nargs="*", metavar="STACK")
    parser.add_argument("--profile", required=True, help="an AWS profile, or `local`")
    parser.add_argument("--environment", required=True, help="a file name in infra/environments/, without .yaml")
    parser.add_argument("--day-count", type=_counted, help="days until a key is rotated")
    retained = f"API keys per account that stay valid, at least {FEWEST_RETAINED}"
    parser.add_argument("--number-of-api-keys-to-retain", type=_retained, help=retained)
    parser.add_argument("--snowflake-warehouse", help="an existing warehouse")
    parser.add_argument("--snowflake-organization", help="the organization, if the settings name no account")
    parser.add_argument("--snowflake-account", help="the account name, if the settings name no account")
    parser.add_argument("--keep-data", action="store_true", help="keep the bucket, its encryption key and the tables")
    parser.add_argument("--secret", metavar="WORD", help="rotate: only this key, such as `producer`")
    parser.add_argument("--leaked", action="store_true", help="rotate: revoke all other keys at once")
    parser.add_argument("--yes", action="store_true", help="do not ask for confirmation")
    parser.add_argument("--debug", action="store_true", help="show every command")
    return parser


if __name__ == "__main__":
    main()
