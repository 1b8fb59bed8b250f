"""HTML and SVG in which text is escaped unless it is markup already: names and reasons may come from strangers."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

VOID = frozenset({"meta", "br"})


class Markup(str):
    """Text that is HTML or SVG."""

    __slots__ = ()


def element(name: str, *children: str | Markup, **attributes: str | float | bool | None) -> Markup:
    """Return an element. Children that are no `Markup` are escaped, attributes always.

    `class_` becomes `class`, and `_` within a name becomes `-`. An attribute that is None or False is left out.
    """
    given = "".join(_attribute(each, value) for each, value in attributes.items() if value not in (None, False))
    end = "" if name in VOID else f"{joined(children)}</{name}>"
    return Markup(f"<{name}{given}>{end}")


def joined(parts: Iterable[str | Markup]) -> Markup:
    """Return parts one after the other; those that are no `Markup` are escaped."""
    return Markup("".join(part if isinstance(part, Markup) else escape(part, quote=False) for part in parts))


def with_code(text: str) -> Markup:
    """Return a message whose commands in backquotes are set as code."""
    parts = text.split("`")
    return joined(element("code", part) if number % 2 else part for number, part in enumerate(parts))


def _attribute(name: str, value: str | float | bool | None) -> str:
    spelled = name.rstrip("_").replace("_", "-") if name != "viewBox" else name
    return f" {spelled}" if value is True else f' {spelled}="{escape(str(value), quote=True)}"'
