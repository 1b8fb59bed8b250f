"""The keys of column policies: `columns` and `tags` of a table spec, and `policies` of `frazil.yaml`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import cast

from frazil.model.policies import Policy, Treatment
from frazil.model.secret import DeferredSecret, NamedKey, Secret
from frazil.specs.keys import Built, Derived, Key, Required, Section, Values
from frazil.specs.scalars import COUNT, TEXT
from frazil.specs.shapes import Choice, LaterSecret, MapOf, NotYet, Scalar, SecretFile, Unfit

_PATH = re.compile(r"[^\W\d]\w*(\[\]|\{\})*(\.[^\W\d]\w*(\[\]|\{\})*)*")
_KEY_ID = re.compile(r"[A-Za-z0-9._-]{1,40}")


def parse_column_path(text: str) -> str:
    if not _PATH.fullmatch(text):
        raise Unfit("write names with dots between them, [] for the items of a list and {} for the values of a map")
    return text


def parse_key_id(text: str) -> str:
    if not _KEY_ID.fullmatch(text):
        raise Unfit("write at most 40 letters, digits, points, dashes and underscores, such as 2026-11")
    return text


MASK = Key(
    "mask",
    Choice(
        ("hash", "redact", "truncate", "none"),
        (NotYet("tokenize", "use hash: equal values have equal hashes"),
         NotYet("drop", "write {drop: true}, which leaves the column out")),
    ),
    "What is written instead of a value: its keyed hash, nothing, its beginning, or with none the value itself.",
    Derived("required, unless drop is given"),
)  # fmt: skip
DROP = Key("drop", Choice(("true",)), "Whether the table has no such column.", Derived("not dropped"))
LENGTH = Key("length", COUNT, "How many characters, or bytes, truncate keeps.", Derived("required with truncate"),
             "characters or bytes")  # fmt: skip

MAY_BE_MISSING = Key(
    "may_be_missing",
    Choice(("true",)),
    "Whether a table is made although no schema has the column: an older or a later one may.",
    Derived("a schema has the column"),
)


def policy_of(values: Values) -> Policy:
    word = values.get(MASK)
    return Policy("drop") if word is None else Policy(cast("Treatment", word), values.get(LENGTH) or 0)


def column_policy_of(values: Values) -> Policy:
    return replace(policy_of(values), may_be_missing=values.get(MAY_BE_MISSING) is not None)


_EXAMPLE = "`{mask: hash}` or `{drop: true}`"
POLICY = Built(
    Section((MASK, LENGTH, DROP), exactly_one=("mask", "drop"), label="a policy", example=_EXAMPLE), policy_of
)
COLUMN_POLICY = Built(
    Section((MASK, LENGTH, DROP, MAY_BE_MISSING), exactly_one=("mask", "drop"), label="a policy", example=_EXAMPLE),
    column_policy_of,
)
COLUMNS = Key(
    "columns",
    MapOf(Scalar("a column", parse_column_path), COLUMN_POLICY),
    "Policies of columns: how their values are masked before anything is written, or that they are dropped. Items of a"
    " list are `name[]`, values of a map `name{}`.",
    "{}",
)
TAGS = Key(
    "tags",
    MapOf(TEXT, POLICY),
    "Policies of the columns that a writer's schema tags with a word (`confluent:tags`), unless `columns` names them.",
    "{}",
)

KEY_ID = Key(
    "id", Scalar("an id", parse_key_id), "The name by which tables know the key; it is not secret.", Required()
)
SECRET = Key("secret", LaterSecret(), "The key, 32 bytes in base64, looked up when used: `${secret:NAME#key}`.",
             Derived("required, unless file is given"))  # fmt: skip
IF_LOST = (
    "restore the file from a copy: tables need the key that they began with. docs/policies.md shows how to make a first"
    " key (Keys), and what to do if there is no copy (A lost key)"
)
FILE = Key(
    "file",
    SecretFile(if_lost=IF_LOST),
    "A file with the key, read when used.",
    Derived("required, unless secret is given"),
)


def named_key_of(values: Values) -> NamedKey:
    given: DeferredSecret | Secret | None = values.get(SECRET) or values.get(FILE)
    assert given is not None  # noqa: S101 - exactly one is given
    return NamedKey(values[KEY_ID], given, str(values.place))


NAMED_KEY = Built(Section((KEY_ID, SECRET, FILE), exactly_one=("secret", "file"), label="a key"), named_key_of)
HASH_KEY = Key("hash_key", NAMED_KEY, "The key of hashes, in masked columns and of erased values.",
               Derived("none; required by mask: hash"))  # fmt: skip
DEAD_LETTER_KEY = Key("dead_letter_key", NAMED_KEY, "The key that encrypts the dead letters of tables with policies.",
                      Derived("none; required by columns and tags"))  # fmt: skip
POLICIES = Section((HASH_KEY, DEAD_LETTER_KEY))


def pairs(policies: Mapping[str, Policy]) -> tuple[tuple[str, Policy], ...]:
    return tuple(sorted(policies.items()))
