"""Scalar types of an environment's file, in addition to those of jobs/frazil/specs/scalars.py."""

from __future__ import annotations

import ipaddress
import re
from datetime import timedelta

from frazil.specs.scalars import parse_boolean, parse_duration, parse_snowflake_name, parse_whole
from frazil.specs.shapes import Scalar, Unfit
from infra.settings.model import Scheduled, Streamed

LOG_DAYS_OF_CLOUDWATCH = (1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1096, 1827, 2192, 2557, 2922)
ANY, SET = r"[^\s()]+", r"[^\s()?]+"
SCHEDULE_PATTERN = re.compile(
    rf"rate\([1-9][0-9]* (minute|hour|day)s?\)|cron\({ANY} {ANY} (\? {ANY} {SET}|{SET} {ANY} \?) {ANY}\)"
)
"""EventBridge Scheduler wants a ? for the day of the month or for that of the week."""

OF_TAGS, SIGNS_OF_TAGS = "[A-Za-z0-9 _.:/=+@-]", "letters of A to Z, digits, spaces and _.:/=+@-"
"""EMR Serverless takes no other letters, and EventBridge Scheduler no empty value."""

FEWEST_RETAINED = 2
"""The current API key and the previous one, which clients use until they read their secret again."""


def parse_days(text: str) -> int:
    days = parse_duration(text) / timedelta(days=1)
    if days != int(days):
        raise Unfit("write whole days: 30d")
    return int(days)


def parse_log_days(text: str) -> int:
    days = parse_days(text)
    if days not in LOG_DAYS_OF_CLOUDWATCH:
        nearest = min(LOG_DAYS_OF_CLOUDWATCH, key=lambda each: abs(each - days))
        raise Unfit(f"CloudWatch supports only certain retention periods; the nearest is {nearest}d")
    return days


def parse_gigabytes(text: str) -> int:
    match = re.fullmatch(r"([1-9][0-9]{0,4}) ?GB", text, re.ASCII)
    if not match:
        raise Unfit("write whole gigabytes: 16GB")
    return int(match[1])


def parse_cidr(text: str) -> str:
    try:
        return str(ipaddress.IPv4Network(text))
    except ValueError as error:
        raise Unfit("write an IPv4 network without host bits: 10.42.0.0/16") from error


def parse_port(text: str) -> int:
    port = parse_whole(text)
    if not 1 <= port <= 65535:
        raise Unfit("a port is a number from 1 to 65535")
    return port


def parse_schedule(text: str) -> Streamed | Scheduled:
    if text == "streaming":
        return Streamed()
    if not SCHEDULE_PATTERN.fullmatch(text):
        raise Unfit("write streaming, rate(1 hour), or cron(0 6 * * ? *) with its six fields, a ? for one of both days")
    return Scheduled(text)


def parse_tag_name(text: str) -> str:
    if not re.fullmatch(f"{OF_TAGS}{{1,128}}", text) or text.lower().startswith("aws:"):
        raise Unfit(f"use 1 to 128 {SIGNS_OF_TAGS}, not starting with aws:")
    return text


def parse_tag_value(text: str) -> str:
    if not re.fullmatch(f"{OF_TAGS}{{1,256}}", text):
        raise Unfit(f"use 1 to 256 {SIGNS_OF_TAGS}")
    return text


def parse_seconds(text: str) -> int:
    seconds = parse_duration(text).total_seconds()
    if seconds != int(seconds):
        raise Unfit("write whole seconds: 60s")
    return int(seconds)


def parse_retained(text: str) -> int:
    number = parse_whole(text)
    if number < FEWEST_RETAINED:
        raise Unfit(f"it must be at least {FEWEST_RETAINED}: with fewer, a rotation deletes a key that is in use")
    return number


def parse_refresh(text: str) -> int:
    seconds = parse_seconds(text)
    if not 30 <= seconds <= 86400:
        raise Unfit("use 30s to 1d, the range that Snowflake accepts")
    return seconds


def _matching(label: str, pattern: str, advice: str) -> Scalar[str]:
    """The scalar of texts that match `pattern` as a whole."""

    def parse(text: str) -> str:
        if not re.fullmatch(pattern, text):
            raise Unfit(advice)
        return text

    return Scalar(label, parse)


BOOLEAN = Scalar("true or false", lambda text: parse_boolean(text) == "true", {"type": "boolean"}, numeric=True)
BUCKET_NAME = _matching(
    "a bucket's name",
    r"[a-z0-9][a-z0-9-]{1,61}[a-z0-9]",
    "use 3 to 63 lower-case letters, digits and -, starting and ending with a letter or digit",
)
CIDR = Scalar("an IPv4 network", parse_cidr)
DAYS = Scalar("whole days", parse_days)
DOMAIN_NAME = _matching(
    "a domain",
    r"([a-z0-9]([a-z0-9-]*[a-z0-9])?\.)+[a-z]{2,}",
    "write a domain without * and without a trailing dot: us-east-1.aws.private.confluent.cloud",
)
EMAIL = _matching("an e-mail address", r"[^@\s]+@[^@\s]+\.[^@\s]+", "write an e-mail address: name@example.com")
EXTERNAL_ID_TEXT = _matching(
    "an external id", r"(?a)[\w+=,.@:/-]{2,1224}", "use 2 to 1224 letters, digits and +=,.@:/-_"
)
GIGABYTES = Scalar("whole gigabytes", parse_gigabytes)
LOG_DAYS = Scalar("whole days", parse_log_days)
LOOPBACK_URL = _matching(
    "an address of this machine",
    r"http://127\.0\.0\.1:[0-9]{1,5}",
    "write http://127.0.0.1:PORT: stand-ins run only on this machine",
)
PORT = Scalar("a port", parse_port, {"type": "integer", "minimum": 1, "maximum": 65535}, numeric=True)
KMS_KEY_ARN = _matching(
    "an ARN",
    r"(?a)arn:aws(-[a-z]+)*:kms:[a-z0-9-]+:[0-9]{12}:key/[\w-]+",
    "write arn:aws:kms:us-east-1:123456789012:key/id, not an alias",
)
POLICY_ARN = _matching(
    "an ARN",
    r"(?a)arn:aws(-[a-z]+)*:iam::([0-9]{12}|aws):policy/[\w+=,.@/-]+",
    "write arn:aws:iam::123456789012:policy/name",
)
PRINCIPAL_ARN = _matching(
    "an ARN",
    r"(?a)arn:aws(-[a-z]+)*:iam::[0-9]{12}:(root|(role|user)/[\w+=,.@/-]+)",
    "write arn:aws:iam::123456789012:role/name, :user/name or :root",
)
READER_NAME = _matching(
    "a name",
    r"[a-z][a-z0-9-]{0,24}",
    "use up to 25 lower-case letters, digits and -, starting with a letter: it is part of a role name",
)
REFRESH = Scalar("a duration", parse_refresh)
REGION_NAME = _matching("a region", r"[a-z]{2}(-[a-z]+)+-[0-9]", "write an AWS region: us-east-1")
RETAINED = Scalar(
    f"a whole number from {FEWEST_RETAINED}",
    parse_retained,
    {"type": "integer", "minimum": FEWEST_RETAINED},
    numeric=True,
)
SCHEDULE = Scalar("streaming, or a schedule", parse_schedule)
SECONDS = Scalar("a duration", parse_seconds)
SERVICE_NAME = _matching(
    "an endpoint service",
    r"com\.amazonaws\.vpce\.[a-z0-9-]+\.vpce-svc-[0-9a-f]+",
    "write an endpoint service name: com.amazonaws.vpce.us-east-1.vpce-svc-0123456789abcdef0",
)
SNOWFLAKE_NAME = Scalar("a name in Snowflake", parse_snowflake_name)
SUBJECT_NAME = _matching(
    "a subject's name", r"[^*\s/]+\*?|\*", "write a subject name, or a prefix followed by *: orders-*"
)
TAG_NAME = Scalar("a tag", parse_tag_name)
TAG_VALUE = Scalar("text", parse_tag_value)
