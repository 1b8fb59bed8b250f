"""Run one step of scripts/deploy.sh: `python -m infra.deploy STEP [STACK...] --profile=… --environment=…`.

Exit status: 0 done, 1 failed, 2 misuse.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import NoReturn

from frazil.model.errors import FrazilError
from infra.deploy import services
from infra.deploy.causes import of_aws
from infra.deploy.deployment import LOCAL, NO_FLAGS, Deployment, credentials, open_deployment
from infra.deploy.snowflake_account import AccountFlags, is_missing
from infra.deploy.steps import STEPS, Asked, compare_accounts, tell
from infra.settings_scalars import FEWEST_RETAINED

QUESTIONS: Mapping[str, Callable[[Deployment], bool]] = {
    "needs-confluent": lambda deployment: deployment.has_confluent,
    "needs-snowflake": lambda deployment: deployment.needs_snowflake_key,
}
"""Questions instead of steps: they print `yes` or `no`; a failure prints neither."""

NEEDS_ACCOUNT = "needs-snowflake-account"
"""A question answered from the command line, not from the deployment."""

BEFORE_THE_ACCOUNT = frozenset({"needs-confluent", "recall", NEEDS_ACCOUNT})
"""Steps that `deploy.sh` runs before it asks for the Snowflake account, so its flags may be incomplete."""

INTERRUPTED = 130


def main() -> NoReturn:
    status = run(sys.argv[1:])
    if status == INTERRUPTED:  # Ctrl-C also ended the Node.js child; the exit handler that stops it would fail
        sys.stdout.flush()
        os._exit(status)
    sys.exit(status)


def run(arguments: Sequence[str]) -> int:
    """Run one step and return the exit status."""
    given = _parser().parse_args(arguments)
    try:
        deployment = enter(given)
        if given.step == NEEDS_ACCOUNT:
            print("yes" if _needs_account(deployment, given) else "no")
            return 0
        if given.step in QUESTIONS:
            print("yes" if QUESTIONS[given.step](deployment) else "no")
            return 0
        compare_accounts(deployment, given.step)
        STEPS[given.step](deployment, Asked(tuple(given.stacks), given.keep_data, given.secret, given.leaked))
    except FrazilError as error:
        return _failed(error)
    except KeyboardInterrupt:
        return INTERRUPTED
    except Exception as problem:
        of_the_account = of_aws(problem, given.step)
        if of_the_account is None:
            raise
        return _failed(of_the_account)
    return 0


def _failed(error: FrazilError) -> int:
    tell(f"{type(error).__name__}: {error}")
    return error.exit_status


def enter(given: argparse.Namespace) -> Deployment:
    """Open the deployment and set the credentials of its account for this process and its children."""
    os.environ.pop("FRAZIL_CONFIG", None)  # the shell may have it from another environment
    here = services.services_here() if given.profile == LOCAL else None
    os.environ.update({} if here is None else services.addresses(here, given.environment))
    deployment = open_deployment(
        given.environment,
        given.profile,
        asks=not given.yes,
        days=given.day_count,
        keys_to_retain=given.number_of_api_keys_to_retain,
        snowflake=NO_FLAGS if given.step in BEFORE_THE_ACCOUNT else _flags(given),
    )
    for name, value in credentials(deployment, None if here is None else here.aws_endpoint_url).items():
        os.environ.pop(name, None)
        os.environ.update({} if value is None else {name: value})
    return deployment


def _flags(given: argparse.Namespace) -> AccountFlags:
    return AccountFlags(given.snowflake_warehouse, given.snowflake_organization, given.snowflake_account)


def _needs_account(deployment: Deployment, given: argparse.Namespace) -> bool:
    is_known = deployment.is_local or deployment.settings.snowflake is not None
    return not is_known and is_missing(_flags(given), os.environ)


def _counted(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected a whole number of at least 1, found {text}")
    return int(text)


def _retained(text: str) -> int:
    if not text.isdecimal() or int(text) < FEWEST_RETAINED:
        raise argparse.ArgumentTypeError(f"expected a whole number of at least {FEWEST_RETAINED}, found {text}")
    return int(text)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m infra.deploy", description=__doc__)
    parser.add_argument("step", choices=(*STEPS, *QUESTIONS, NEEDS_ACCOUNT))
    parser.add_argument("stacks", nargs="*", metavar="STACK")
    parser.add_argument("--profile", required=True, help="an AWS profile, or `local`")
    parser.add_argument("--environment", required=True, help="a file name in infra/environments/, without .yaml")
    parser.add_argument("--day-count", type=_counted, help="days until a key is rotated")
    retained = "API keys per account that stay valid, at least 2"
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
