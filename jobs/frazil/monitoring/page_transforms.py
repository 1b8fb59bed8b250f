"""The transformations on the status page: those that need attention, and how far each has come."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta

from frazil.model.spelling import age, plural
from frazil.monitoring.markup import Markup, element, joined, with_code
from frazil.transforms.standing import TransformStanding

COLUMNS = (
    ("transformation", ""),
    ("table", ""),
    ("follows", ""),
    ("state", ""),
    ("unread rows", "n"),
    ("lag", "n"),
    ("rows", "n wide"),
    ("last batch", "n wide"),
)


def level(found: TransformStanding, *, now: datetime, late: timedelta) -> str:
    """Return how much a transformation needs attention: `bad`, `warn` or `good`."""
    if found.problems:
        return "bad"
    lag = found.lag_seconds(now)
    is_late = found.state == "behind" and lag is not None and lag > late.total_seconds()
    return "warn" if is_late else "good"


def boxes(transforms: Sequence[TransformStanding], *, now: datetime, late: timedelta) -> Iterator[Markup]:
    """Yield a box for each transformation that needs a person."""
    for each in transforms:
        kind = level(each, now=now, late=late)
        if kind != "good":
            lines = [with_code(line) for line in each.lines()]
            if each.problems:
                lines.append(with_code(f"`frazil explain {each.spec.name}` shows what to do"))
            yield element("div", *(element("p", line) for line in lines), class_=f"box {kind}")


def overview(transforms: Sequence[TransformStanding], *, now: datetime, late: timedelta) -> Iterator[Markup]:
    """Yield a table of all transformations, if there are any."""
    if not transforms:
        return
    yield element("h2", plural(len(transforms), "transformation").capitalize())
    head = element("tr", *(element("th", name, class_=kind or None) for name, kind in COLUMNS))
    rows = (
        element(
            "tr",
            *(
                element("td", cell, class_=kind or None)
                for cell, (_, kind) in zip(_cells(each, now=now, late=late), COLUMNS, strict=True)
            ),
        )
        for each in transforms
    )
    yield element("table", element("thead", head), element("tbody", *rows))


def _cells(found: TransformStanding, *, now: datetime, late: timedelta) -> Sequence[str | Markup]:
    lag, last = found.lag_seconds(now), found.last_batch
    return (
        found.spec.name,
        found.spec.identifier,
        found.spec.source,
        joined([element("span", found.state, class_=f"badge {level(found, now=now, late=late)}")]),
        "?" if found.unread_rows is None else f"{found.unread_rows:,}",
        "?" if lag is None else age(lag),
        "-" if found.rows is None else f"{found.rows:,}",
        "-" if last is None else age((now - last.at).total_seconds()),
    )
