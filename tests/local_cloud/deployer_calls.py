"""The calls of the deployer, as the IAM actions that they need."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from typing import Any

from tests.fakes.aws_actions import OTHER_NAMES

PREFIXES = {"monitoring": "cloudwatch"}
"""Services that sign calls with another name than the prefix of their actions."""


def not_allowed(calls: Iterable[Mapping[str, Any]], allowed: Iterable[str]) -> set[str]:
    """The actions of recorded calls that no pattern allows."""
    wanted = {f"{PREFIXES.get(call['service'], call['service'])}:{call['operation']}" for call in calls}
    patterns = list(allowed)
    needed = {OTHER_NAMES.get(api, api) for api in wanted}
    return {action for action in needed if not any(fnmatchcase(action, pattern) for pattern in patterns)}
