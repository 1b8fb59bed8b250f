"""The first rule that a payload breaks, and where. The native module words faults in the same way."""

from __future__ import annotations

from dataclasses import dataclass

from frazil.model.dead_letter import Reason


class Broken(Exception):  # noqa: N818 - it never leaves the decoder
    """A payload breaks a rule. `segments` are the path to the value, innermost first."""

    def __init__(self, reason: Reason, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason
        self.detail = detail
        self.segments: list[str] = []


@dataclass(frozen=True, slots=True)
class Fault:
    """The first rule that a payload breaks, and where."""

    reason: Reason
    detail: str
    path: str = ""


def fault_of(broken: Broken) -> Fault:
    return Fault(broken.reason, broken.detail, join_segments(broken.segments))


def join_segments(innermost_first: list[str]) -> str:
    """Return a dotted path such as `order.items[].price`."""
    path = ""
    for segment in reversed(innermost_first):
        path += f".{segment}" if path and segment[:1] not in ("[", "{") else segment
    return path


def counted(count: int, noun: str) -> str:
    """Return `1 byte` or `2 bytes`; without separators of thousands, as the native module writes numbers."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
