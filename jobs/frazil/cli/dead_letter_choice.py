"""The options that choose dead letters."""

from __future__ import annotations


def reason_named(text: str | None) -> str | None:
    """Return a reason as it was given. Raises Misuse if dead letters have none of this name."""
    from frazil.model.dead_letter import Reason as Known  # noqa: PLC0415
    from frazil.model.errors import Misuse  # noqa: PLC0415
    from frazil.model.spelling import did_you_mean  # noqa: PLC0415

    if text is None or text in tuple(Known):
        return text
    likely = did_you_mean(text, Known)
    known = "the reasons are " + ", ".join(Known)
    raise Misuse(f"no dead letter has the reason {text}", hint=f"did you mean {likely}? {known}" if likely else known)
