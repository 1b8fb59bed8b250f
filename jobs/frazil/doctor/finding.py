"""The findings of checks, and the report of all of them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Literal, cast

from frazil.model.errors import FrazilError

Verdict = Literal["ok", "failed", "not asked"]
Part = Literal[
    "configuration", "machine", "identity", "broker", "registry", "catalog", "warehouse", "clock", "tables", "snowflake"
]

NO_ANSWER = "no answer within"
HIDDEN = "***"
SHORTEST_HIDDEN = 8
"""Shorter secrets are not masked, because they would also match parts of ordinary words."""


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check. `found` is the observation, or why the check was skipped; `hint` is what to do."""

    part: Part
    what: str
    verdict: Verdict
    found: str
    hint: str = ""

    @property
    def is_silence(self) -> bool:
        """Return whether the service did not answer in time; further checks of the service are then skipped."""
        return self.verdict == "failed" and self.found.startswith(NO_ANSWER)


@dataclass(frozen=True, slots=True)
class Report:
    """All findings from one environment: this machine or a job run."""

    place: str
    findings: tuple[Finding, ...]

    @property
    def well(self) -> bool:
        return all(finding.verdict != "failed" for finding in self.findings)

    @property
    def counts(self) -> Mapping[Verdict, int]:
        found = Counter(finding.verdict for finding in self.findings)
        return {verdict: found[verdict] for verdict in ("ok", "failed", "not asked")}

    def to_json(self) -> dict[str, object]:
        findings = [asdict(finding) for finding in self.findings]
        return {"place": self.place, "well": self.well, "findings": findings}


def failed(part: Part, what: str, problem: FrazilError) -> Finding:
    return Finding(part, what, "failed", problem.what, problem.hint)


def not_asked(part: Part, what: str, why: str, hint: str = "") -> Finding:
    return Finding(part, what, "not asked", why, hint)


def without(finding: Finding, secrets: Iterable[str]) -> Finding:
    """Mask these values in a finding, because an error message of a library may contain one."""
    found, hint = finding.found, finding.hint
    for secret in sorted(secrets, key=len, reverse=True):
        if len(secret) >= SHORTEST_HIDDEN:
            found, hint = found.replace(secret, HIDDEN), hint.replace(secret, HIDDEN)
    return replace(finding, found=found, hint=hint)


def report_in(text: str) -> Report | None:
    """Return the last report in an output that may have other lines; None if there is none."""
    decoder = json.JSONDecoder()
    begins = [0, *(n + 1 for n, sign in enumerate(text) if sign == "\n")]
    for begin in reversed([n for n in begins if text.startswith("{", n)]):
        try:
            value, _ = decoder.raw_decode(text, begin)
            return _report(value)
        except (ValueError, KeyError, TypeError):
            continue
    return None


def _report(value: object) -> Report:
    document = cast("Mapping[str, object]", value)
    findings = cast("Iterable[Mapping[str, str]]", document["findings"])
    return Report(str(document["place"]), tuple(_finding(each) for each in findings))


def _finding(fields: Mapping[str, str]) -> Finding:
    part, verdict = cast("Part", fields["part"]), cast("Verdict", fields["verdict"])
    return Finding(part, str(fields["what"]), verdict, str(fields["found"]), str(fields["hint"]))
