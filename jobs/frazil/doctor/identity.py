"""Check the AWS identity of this process, if the configuration uses AWS."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime

from frazil.adapters.aws.caller import who_am_i
from frazil.doctor.asking import Asking
from frazil.doctor.clock import compare_clocks
from frazil.doctor.configuration import lacks_a_secret
from frazil.doctor.finding import Finding, not_asked
from frazil.doctor.ways import SLACK_SECONDS
from frazil.model.settings import Settings

WHAT = "AWS"
ENDPOINTS = ("AWS_ENDPOINT_URL_STS", "AWS_ENDPOINT_URL")


def ask_identity(
    settings: Settings, env: Mapping[str, str], asking: Asking, *, asked_secrets: bool, now: Callable[[], datetime]
) -> list[Finding]:
    """Check the identity, and compare the clock with the time in AWS's response."""
    catalog = settings.catalog
    why = _why_not(settings, env, asked_secrets=asked_secrets)
    if why is not None:
        return [not_asked("identity", WHAT, why)]
    times: list[Finding] = []

    def ask() -> str:
        caller = who_am_i(catalog.properties, seconds=asking.seconds)
        if caller.told_at is not None:
            times.append(compare_clocks(WHAT, theirs=caller.told_at, ours=now()))
        return f"{caller.arn}, account {caller.account}, {caller.region}"

    finding = replace(asking, seconds=asking.seconds + SLACK_SECONDS).ask(WHAT, ask)
    return [finding, *times]


def _why_not(settings: Settings, env: Mapping[str, str], *, asked_secrets: bool) -> str | None:
    catalog = settings.catalog
    signs = catalog.type == "glue" or "signing_name" in catalog.all_properties
    if not signs and not asked_secrets and settings.kafka.get("aws_msk_iam") != "true":
        return "the configuration uses no AWS service"
    if lacks_a_secret(catalog.properties):
        return "a secret of `catalog` is missing"
    if "glue.endpoint" in catalog.properties and not any(env.get(name) for name in ENDPOINTS):
        return "Glue has a custom endpoint, and AWS_ENDPOINT_URL_STS is not set"
    return None
