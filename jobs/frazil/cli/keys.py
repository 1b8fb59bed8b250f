"""The keys in `frazil status`: one line for each secret in the configuration, and one for each problem."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from frazil.cli.screen import print_lines
from frazil.model.settings import Settings
from frazil.model.spelling import age

if TYPE_CHECKING:
    from frazil.cli.columns import Column
    from frazil.key_status import KeyStatus


def show_keys(settings: Settings) -> None:
    """Print the keys; nothing if the configuration refers to no secret."""
    from frazil.cli.columns import show  # noqa: PLC0415

    found = look_at_keys(settings)
    if not found:
        return
    print()
    show(_table(found))
    for remark in remarks(found):
        print_lines([remark], sys.stdout)


def print_keys_as_json(settings: Settings) -> None:
    print(json.dumps([each.to_json() for each in look_at_keys(settings)], indent=2))


def remarks(found: Sequence[KeyStatus]) -> Iterator[str]:
    for each in found:
        if each.unknown is not None:
            yield f"{each.secret}: its age is unknown: {each.unknown}"
        for warning in each.warnings:
            yield f"{each.secret}: {warning}"


def look_at_keys(settings: Settings) -> list[KeyStatus]:
    """Return the status of each secret that the configuration refers to."""
    from frazil.adapters.aws.secret_histories import SecretsManagerHistories  # noqa: PLC0415
    from frazil.key_status import key_statuses  # noqa: PLC0415

    return list(key_statuses(SecretsManagerHistories(), settings.secrets, now=datetime.now(UTC)))


def _table(found: Sequence[KeyStatus]) -> list[Column]:
    from frazil.cli.columns import Column  # noqa: PLC0415

    ranks = {"age": 0, "schedule": 3, "last rotation": 2, "next rotation": 1}
    rows = [tuple(_figures(each)) or ("",) * len(ranks) for each in found]
    return [
        Column("secret", tuple(each.secret for each in found), is_number=False),
        Column("state", tuple(each.state for each in found), is_number=False),
        *(Column(name, cells, rank=ranks[name]) for name, cells in zip(ranks, zip(*rows, strict=True), strict=True)),
    ]


def _figures(each: KeyStatus) -> Iterator[str]:
    history = each.history
    if history is None:
        return
    yield "-" if each.age_seconds is None else age(each.age_seconds)
    yield history.schedule or "-"
    yield _moment(history.last_rotation)
    yield _moment(history.next_rotation)


def _moment(at: datetime | None) -> str:
    from frazil.cli.text import moment  # noqa: PLC0415

    return "-" if at is None else moment(at.replace(microsecond=0))
