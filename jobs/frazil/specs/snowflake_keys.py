"""The keys of `snowflake`, and their conversion to settings."""

from __future__ import annotations

import re
from collections.abc import Iterator

from frazil.model.loopback import is_loopback
from frazil.model.settings import SnowflakeSettings, SnowflakeUser
from frazil.specs.keys import Built, Derived, Key, Refused, Required, Section, Values
from frazil.specs.problems import Problem
from frazil.specs.scalars import URL, parse_snowflake_name
from frazil.specs.shapes import LaterSecret, Scalar, Unfit

KEY_HINT = "give private_key: ${secret:NAME#private_key}, the private key of a key pair"


def parse_account(text: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9_]+([-.][A-Za-z0-9_]+)*", text):
        raise Unfit("write ORGANIZATION-ACCOUNT, not a URL: ACME-LAKE")
    return text


ACCOUNT_NAME = Scalar("ORGANIZATION-ACCOUNT", parse_account)
NAME = Scalar("a name in Snowflake", parse_snowflake_name)

USER = Key("user", NAME, "The Snowflake user.", Required())
PRIVATE_KEY = Key(
    "private_key",
    LaterSecret(),
    "The user's private key, PKCS#8 in PEM, looked up when used: `${secret:NAME#private_key}`.",
    Required(),
)
LOGIN = Built(
    Section(
        (USER, PRIVATE_KEY),
        refused=(
            Refused("password", "users authenticate with a key pair", KEY_HINT),
            Refused("secret", "a secret is not referenced by this key", KEY_HINT),
        ),
    ),
    lambda values: SnowflakeUser(values[USER], values[PRIVATE_KEY]),
)

ACCOUNT = Key("account", ACCOUNT_NAME, "The account, as ORGANIZATION-ACCOUNT.", Required())
DATABASE = Key("database", NAME, "The database that the tables are in.", Required())
SCHEMA = Key("schema", NAME, "The schema that the tables are in.", Required())
WAREHOUSE = Key("warehouse", NAME, "The warehouse for statements that need one.", Derived("the user's own"))
LOADER = Key(
    "loader", LOGIN, "The user that refreshes external tables over a Delta log.", Derived("they are not refreshed")
)
READER = Key("reader", LOGIN, "The user that reads how fresh the tables are.", Derived("`frazil doctor` does not ask"))
ADDRESS = Key("url", URL, "The URL of the account; http:// only on loopback.", Derived("the account's URL"))


SNOWFLAKE = Section(
    (ACCOUNT, DATABASE, SCHEMA, WAREHOUSE, LOADER, READER, ADDRESS),
    refused=(Refused("role", "each user uses its default role", "remove the key"),),
)


def snowflake_of(values: Values) -> SnowflakeSettings:
    return SnowflakeSettings(
        account=values[ACCOUNT],
        database=values[DATABASE],
        schema=values[SCHEMA],
        warehouse=values.get(WAREHOUSE),
        loader=values.get(LOADER),
        reader=values.get(READER),
        url=values.get(ADDRESS),
    )


def snowflake_problems(values: Values) -> Iterator[Problem]:
    """Yield a problem if the login token would cross a network without TLS."""
    url = values.get(ADDRESS) or ""
    if url.lower().startswith("http://") and not is_loopback(url):
        yield Problem(values.place_of(ADDRESS), "http:// is allowed only on loopback", "write https://")
