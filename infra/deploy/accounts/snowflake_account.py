"""The Snowflake account for `create --snowflake-warehouse=…` if the settings file has no `snowflake` section.

It comes from flags or from the environment variables of Snowflake's provider. It is recorded in the environment's
folder, so that later commands such as `delete` need no flags.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from frazil.model.errors import SettingError
from frazil.specs.keys import default_of, nowhere
from frazil.specs.scalars import parse_snowflake_name
from frazil.specs.shapes import Unfit
from infra.deploy.cloud import Cloud
from infra.settings.model import EnvironmentSettings, ExistingWarehouse, Snowflake
from infra.settings.snowflake_keys import REFRESH_EVERY, SNOWFLAKE_ROLE, SNOWFLAKE_SCHEMA, SNOWFLAKE_USER, WAREHOUSE

ORGANIZATION, ACCOUNT = "SNOWFLAKE_ORGANIZATION_NAME", "SNOWFLAKE_ACCOUNT_NAME"
"""Environment variables of Snowflake's Terraform provider."""
FILE = "snowflake.json"
HINT = (
    f"add --snowflake-organization= and --snowflake-account=, or export {ORGANIZATION} and {ACCOUNT}; "
    "or add a `snowflake` section to the settings file (docs/snowflake.md)"
)


@dataclass(frozen=True, slots=True)
class AccountFlags:
    """The Snowflake flags of the command line; None if not given."""

    warehouse: str | None = None
    organization: str | None = None
    account: str | None = None


@dataclass(frozen=True, slots=True)
class Recorded:
    """The account that an earlier `create` was given."""

    organization: str
    account: str
    warehouse: str | None = None


def with_account(
    settings: EnvironmentSettings, flags: AccountFlags, env: Mapping[str, str], folder: Path, cloud: Cloud
) -> Snowflake | None:
    """Return the account to deploy to, or None where neither settings, flags nor record name one.

    Raises SettingError for a warehouse without an account, for names that Snowflake would not take, and for an account
    other than the one that the settings or an earlier `create` name.
    """
    known = settings.snowflake or _of_record(folder, env, cloud)
    if known is None and flags.warehouse is not None:
        known = _of_flags(settings, flags, env, cloud)
    if known is None:
        return None
    _refuse_another(known, flags)
    if flags.warehouse is None:
        return known
    return replace(known, warehouse=ExistingWarehouse(_name("--snowflake-warehouse", flags.warehouse)))


def is_missing(flags: AccountFlags, env: Mapping[str, str]) -> bool:
    """Return whether a warehouse is named without its account; `deploy.sh` then prompts for the account."""
    return flags.warehouse is not None and not all(_names(flags, env))


def record_of(snowflake: Snowflake) -> Recorded:
    warehouse = snowflake.warehouse.name if isinstance(snowflake.warehouse, ExistingWarehouse) else None
    return Recorded(snowflake.organization, snowflake.account, warehouse)


def remember(account: Recorded, folder: Path) -> None:
    """Record the account for later commands."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / FILE).write_text(json.dumps(dataclasses.asdict(account)), encoding="utf-8")


def forget(folder: Path) -> None:
    """Remove the record, after a `delete`."""
    (folder / FILE).unlink(missing_ok=True)


def recorded(folder: Path) -> Recorded | None:
    file = folder / FILE
    return Recorded(**json.loads(file.read_text(encoding="utf-8"))) if file.exists() else None


def _of_record(folder: Path, env: Mapping[str, str], cloud: Cloud) -> Snowflake | None:
    found = recorded(folder)
    return None if found is None else account_from(found, url=cloud.snowflake_url(env))


def _of_flags(settings: EnvironmentSettings, flags: AccountFlags, env: Mapping[str, str], cloud: Cloud) -> Snowflake:
    organization, account = cloud.snowflake_account or _names(flags, env)
    if not organization or not account:
        raise SettingError(
            f"--snowflake-warehouse={flags.warehouse} needs a Snowflake account: expected one in "
            f"{settings.source_file}, in flags or in environment variables, found none",
            hint=HINT,
        )
    given = Recorded(_name("the Snowflake organization", organization), _name("the Snowflake account", account))
    return account_from(given, url=cloud.snowflake_url(env))


def account_from(named: Recorded, *, url: str | None = None) -> Snowflake:
    """Return the account with the defaults of the settings section `snowflake`."""
    return Snowflake(
        organization=named.organization,
        account=named.account,
        user=default_of(SNOWFLAKE_USER, nowhere()),
        role=default_of(SNOWFLAKE_ROLE, nowhere()),
        warehouse=ExistingWarehouse(named.warehouse) if named.warehouse else default_of(WAREHOUSE, nowhere()),
        database=None,
        schema=default_of(SNOWFLAKE_SCHEMA, nowhere()),
        refresh_seconds=default_of(REFRESH_EVERY, nowhere()),
        reader_roles=(),
        allowed_cidrs=(),
        url=url,
    )


def _names(flags: AccountFlags, env: Mapping[str, str]) -> tuple[str | None, str | None]:
    return flags.organization or env.get(ORGANIZATION), flags.account or env.get(ACCOUNT)


def _refuse_another(known: Snowflake, flags: AccountFlags) -> None:
    for flag, asked, found in (
        ("--snowflake-organization", flags.organization, known.organization),
        ("--snowflake-account", flags.account, known.account),
    ):
        if asked is not None and _name(flag, asked) != found:
            raise SettingError(
                f"{flag}={asked}: the environment is for the Snowflake account {known.identifier}",
                hint="omit the flag, or run `scripts/deploy.sh delete` before you switch to another account",
            )


def _name(what: str, text: str) -> str:
    try:
        return parse_snowflake_name(text)
    except Unfit as unfit:
        raise SettingError(f"{what}={text} is not a valid Snowflake name", hint=str(unfit)) from unfit
