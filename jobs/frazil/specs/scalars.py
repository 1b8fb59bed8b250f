"""The types of scalar values: names, numbers, durations, sizes, times."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from urllib.parse import urlsplit

from frazil.specs.shapes import Scalar, Unfit

SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
BYTES = {"B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12} | {
    "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40,
}  # fmt: skip
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")
QUANTITY = re.compile(r"(\d+(?:\.\d+)?) ?([A-Za-z%]*)", re.ASCII)
PLACEHOLDER_PATTERN = r"^\$\{.+\}$"


NO_PAGE = "none"


LONGEST = timedelta(days=36_500)
"""The longest duration: so long before any time there is a date still."""


def parse_duration(text: str) -> timedelta:
    number, unit = _quantity(text, "write a number and s, m, h or d: 30s, 5m, 1h, 7d")
    if unit not in SECONDS:
        raise Unfit("write a number and s, m, h or d: 30s, 5m, 1h, 7d")
    if number <= 0:
        raise Unfit("it must be greater than zero")
    if number * SECONDS[unit] > LONGEST.total_seconds():
        raise Unfit(f"write at most {LONGEST.days}d, which is 100 years")
    return timedelta(seconds=number * SECONDS[unit])


def parse_size(text: str) -> int:
    hint = "write a number and KB, MB, GB (powers of 1000) or KiB, MiB, GiB (powers of 1024): 512MB, 1GB"
    number, unit = _quantity(text, hint)
    if unit not in BYTES or number * BYTES[unit] < 1:
        raise Unfit(hint)
    return int(number * BYTES[unit])


def parse_share(text: str) -> float:
    number, unit = _quantity(text, "write a percentage: 5%")
    if unit != "%" or number > 100:
        raise Unfit("write a percentage from 0% to 100%: 5%")
    return number / 100


def parse_count(text: str) -> int:
    """Parse a whole number of at least one."""
    number = parse_whole(text)
    if number < 1:
        raise Unfit("it must be at least 1")
    return number


def parse_whole(text: str) -> int:
    digits = text.replace("_", "")
    if not (digits.isascii() and digits.isdigit()) or text.strip("_") != text:
        raise Unfit("write digits only, without a sign, a point or a unit: 5000000")
    if len(digits) > 1 and digits.startswith("0"):
        raise Unfit(f"remove the leading zeros: {int(digits)} (YAML would read an octal number)")
    if int(digits) >= 2**63:
        raise Unfit("it must be below 2^63")
    return int(digits)


def parse_boolean(text: str) -> str:
    if text not in {"true", "false"}:
        raise Unfit("write true or false (yes, no, on and off are not booleans here)")
    return text


def parse_number_text(text: str) -> str:
    """Check that the text is a whole number, and return it unchanged."""
    return str(parse_whole(text))


def parse_time(text: str) -> datetime:
    try:
        at = datetime.fromisoformat(text)
    except ValueError as error:
        raise Unfit("write it as in ISO 8601: 2026-01-31T00:00:00Z") from error
    if at.tzinfo is None:
        raise Unfit(f"add a time zone: {at.isoformat()}Z")
    return at


def parse_text(text: str) -> str:
    if not text.strip():
        raise Unfit("it must not be empty")
    return text


def parse_name(text: str) -> str:
    if len(text) > 200:
        raise Unfit("it must not be longer than 200 characters")
    if not NAME.fullmatch(text):
        raise Unfit(
            "use only letters, digits and _, with a letter or _ first: every reader accepts such a name unquoted"
        )
    return text


def parse_snowflake_name(text: str) -> str:
    """Return the name as Snowflake stores an unquoted identifier, in upper case."""
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_$]{0,254}", text):
        raise Unfit(
            "use only letters, digits, _ and $, with a letter or _ first: Snowflake accepts such a name unquoted"
        )
    return text.upper()


def parse_prefix(text: str) -> str:
    if not re.fullmatch(r"[a-z_][a-z0-9_]{0,49}", text):
        raise Unfit("use 1 to 50 lower-case letters, digits and _, a letter or _ first: kafka_")
    return text


def parse_topic(text: str) -> str:
    if not TOPIC.fullmatch(text) or text in {".", ".."}:
        raise Unfit("Kafka allows letters, digits, . _ and - in a topic's name, 249 at most")
    return text


def parse_page(text: str) -> str:
    if text != NO_PAGE and not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*\.html", text):
        raise Unfit("write a file name that ends in .html, without a folder, or none")
    return text


def parse_url(text: str) -> str:
    parts = urlsplit(text)
    if parts.scheme not in {"http", "https"} or not parts.netloc:
        raise Unfit("write it with http:// or https:// and a host")
    return text.rstrip("/")


def _quantity(text: str, hint: str) -> tuple[float, str]:
    match = QUANTITY.fullmatch(text)
    if not match or (len(match[1]) > 1 and match[1].startswith("0") and not match[1].startswith("0.")):
        raise Unfit(hint)
    return float(match[1]), match[2]


def _pattern(pattern: str) -> dict[str, object]:
    return {"type": "string", "pattern": rf"({pattern})|({PLACEHOLDER_PATTERN})"}


TEXT = Scalar("text", parse_text)
TABLE_NAME = Scalar("a name", parse_name, _pattern(r"^[A-Za-z_][A-Za-z0-9_]*$"))
TOPIC_NAME = Scalar("a topic's name", parse_topic, {"type": ["string", "number"]})
PREFIX = Scalar("a prefix of column names", parse_prefix, _pattern(r"^[a-z_][a-z0-9_]*$"))
COUNT = Scalar("a whole number from 1", parse_count, {"type": "integer", "minimum": 1}, numeric=True)
WHOLE = Scalar("a whole number", parse_whole, {"type": "integer", "minimum": 0}, numeric=True)
NUMBER_TEXT = Scalar("a whole number", parse_number_text, {"type": "integer", "minimum": 0}, numeric=True)
BOOLEAN_TEXT = Scalar("true or false", parse_boolean, {"type": "boolean"}, numeric=True)
DURATION = Scalar("a duration", parse_duration, _pattern(r"^[0-9.]+ ?[smhd]$"))
SIZE = Scalar("a size", parse_size, _pattern(r"^[0-9.]+ ?([KMGT]i?)?B$"))
SHARE = Scalar("a percentage", parse_share, _pattern(r"^[0-9.]+ ?%$"))
PAGE = Scalar("the name of a page, or none", parse_page, _pattern(r"^([A-Za-z0-9][A-Za-z0-9._-]*\.html|none)$"))
TIME = Scalar("a time", parse_time, {"type": "string"})
URL = Scalar("a URL", parse_url, {"type": "string"})
