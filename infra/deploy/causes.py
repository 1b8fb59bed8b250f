"""Why a step stops, told by what Terraform, a provider or AWS says, and what to do then."""

from __future__ import annotations

import re
from dataclasses import dataclass

from frazil.model.errors import ServiceError


class AwsError(ServiceError):
    """AWS does not answer, does not let this profile in, or refuses what it asks; the step was not carried out."""


@dataclass(frozen=True, slots=True)
class Cause:
    """`pattern` is looked for in all that was said."""

    pattern: str
    hint: str


CAUSES = (
    Cause(
        r"Cannot read the public keys of",
        "Snowflake did not answer the rotation function, or refuses its address: nothing was changed. Run the same "
        "command again when it answers; if it refuses the address, add the address to `snowflake.allowed_cidrs` or to "
        "the network policy of the account",
    ),
    Cause(
        r"Error acquiring the state lock",
        "another run holds the lock: wait for it. If it has died, run `terraform force-unlock` with the ID that stands "
        "in the log",
    ),
    Cause(
        r"config profile \(.*\) could not be found|failed to get shared config profile",
        "there is no such profile: run `aws configure sso`, or correct --profile",
    ),
    Cause(
        r"ExpiredToken|[Tt]oken has expired|SSO session (associated|has expired)|InvalidGrantException"
        r"|No valid credential sources|failed to refresh cached credentials|InvalidClientTokenId"
        r"|Error loading SSO Token|Error when retrieving token from sso|Unable to locate credentials"
        r"|UnrecognizedClientException|Credentials were refreshed, but",
        "run `aws sso login` for your profile, then the same command again: it goes on",
    ),
    Cause(
        r"401 Unauthorized",
        "Confluent Cloud does not know this Cloud API key: export CONFLUENT_CLOUD_API_KEY and "
        "CONFLUENT_CLOUD_API_SECRET of one that is valid (`confluent api-key create --resource cloud` makes one)",
    ),
    Cause(
        r"AccessDenied|not authorized to perform|UnauthorizedOperation|403 Forbidden",
        "the profile may not do that: let somebody grant the action that is named, then run the same command again",
    ),
    Cause(
        r"BucketAlreadyExists|BucketAlreadyOwnedByYou|AlreadyExists|already exists|ResourceConflict",
        "the name is taken, by somebody else or by a run whose state was lost: choose another in the environment's "
        "file, or remove what has it",
    ),
    Cause(
        r"Failed to query available provider packages|Failed to install provider|Invalid provider registry host",
        "Terraform finds no provider: is the network up, or, where there is none, a plugin mirror set?",
    ),
    Cause(
        r"no such host|[Cc]onnection refused|i/o timeout|TLS handshake timeout|connection reset"
        r"|network is unreachable|RequestError: send request failed"
        r"|Could not connect to the endpoint|timeout on endpoint|Connection was closed before",
        "the network was lost: run the same command again, it goes on",
    ),
    Cause(
        r"Unable to find remote state|No stored state was found",
        "a stack that this one builds on has not been applied: run `scripts/deploy.sh create`, which goes in order",
    ),
    Cause(
        r"Instance cannot be destroyed|prevent_destroy",
        "production protects what holds data: set `production: false` in the environment's file, and run it again",
    ),
)


def hint_for(said: str) -> str | None:
    """What to do about the first cause that is recognized."""
    return next((cause.hint for cause in CAUSES if re.search(cause.pattern, said)), None)


def of_aws(problem: Exception, step: str) -> AwsError | None:
    """What AWS's library raised, for people; None for whatever else it is."""
    from botocore.exceptions import BotoCoreError, ClientError  # type: ignore[import-untyped]  # noqa: PLC0415

    if not isinstance(problem, (BotoCoreError, ClientError)):
        return None
    said = " ".join(str(problem).split())
    return AwsError(
        f"the step {step} stopped: {type(problem).__name__}: {said[:600]}",
        hint=hint_for(said) or "run `scripts/deploy.sh check`, mend what it names, and run the same command again",
    )
