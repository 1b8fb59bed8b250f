"""`python -m infra.deploy STEP [STACK...] --profile=… --environment=…`: one step of scripts/deploy.sh.

Exit status as everywhere: 0 done, 1 failed, 2 misuse.
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
from infra.deploy.steps import STEPS, Asked, tell
from infra.settings_scalars import FEWEST_RETAINED

QUESTIONS: Mapping[str, Callable[[Deployment], bool]] = {
    "needs-confluent": lambda deployment: deployment.has_confluent,
    "needs-snowflake": lambda deployment: deployment.needs_snowflake_key,
}
"""Rather than steps: `yes` or `no` is the answer, and a failure is none."""

NEEDS_ACCOUNT = "needs-snowflake-account"
"""A question as well, which is asked of the command line rather than of the deployment."""

BEFORE_THE_ACCOUNT = frozenset({"needs-confluent", "recall", NEEDS_ACCOUNT})
"""Steps that `deploy.sh` takes before it asks for the Snowflake account, so its flags cannot be complete yet."""

INTERRUPTED = 130


def main() -> NoReturn:
    status = run(sys.argv[1:])
    if status == INTERRUPTED:  # Ctrl-C ended the Node.js beside us as well, and what would stop it now complains
        sys.stdout.flush()
        os._exit(status)
    sys.exit(status)


def run(arguments: Sequence[str]) -> int:
    """Carry out one step; the exit status."""
    given = _parser().parse_args(arguments)
    try:
        deployment = enter(given)
        if given.step == NEEDS_ACCOUNT:
            print("yes" if _needs_account(deployment, given) else "no")
            return 0
        if given.step in QUESTIONS:
            print("yes" if QUESTIONS[given.step](deployment) else "no")
            return 0
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
    """Open the deployment, and give this process and its children the credentials of its account: the edge."""
    os.environ.pop("FRAZIL_CONFIG", None)  # of whichever environment the shell asked about last
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
        raise argparse.ArgumentTypeError(f"expected a whole number from 1, found {text}")
    return int(text)


def _retained(text: str) -> int:
    if not text.isdecimal() or int(text) < FEWEST_RETAINED:
        raise argparse.ArgumentTypeError(f"expected a whole number from {FEWEST_RETAINED}, found {text}")
    return int(text)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m infra.deploy", description=__doc__)
    parser.add_argument("step", choices=(*STEPS, *QUESTIONS, NEEDS_ACCOUNT))
    parser.add_argument("stacks", nargs="*", metavar="STACK")
    parser.add_argument("--profile", required=True, help="of AWS, or local")
    parser.add_argument("--environment", required=True, help="a file of infra/environments/")
    parser.add_argument("--day-count", type=_counted, help="how many days a key lives before it is rotated")
    retained = "how many keys of an account stay valid, 2 or more"
    parser.add_argument("--number-of-api-keys-to-retain", type=_retained, help=retained)
    parser.add_argument("--snowflake-warehouse", help="an existing warehouse")
    parser.add_argument("--snowflake-organization", help="where the settings name no account: its organization")
    parser.add_argument("--snowflake-account", help="where the settings name no account: its name")
    parser.add_argument("--keep-data", action="store_true", help="leave the bucket, its key and the tables")
    parser.add_argument("--secret", metavar="WORD", help="rotate: this key alone, such as `producer`")
    parser.add_argument("--leaked", action="store_true", help="rotate: no other key works afterwards")
    parser.add_argument("--yes", action="store_true", help="ask nothing")
    parser.add_argument("--debug", action="store_true", help="show every command")
    return parser


if __name__ == "__main__":
    main()
