"""What a deployment mailed, and the links in it."""

from __future__ import annotations

import csv
import io
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from deployed import Deployed


@dataclass(frozen=True)
class Mail:
    to: str
    subject: str
    text: str

    @property
    def links(self) -> list[str]:
        return [line for line in self.text.splitlines() if line.startswith("https://")]


def mails(deployed: Deployed) -> list[Mail]:
    """Return all mails, the newest last."""
    files = sorted((deployed.double / "mail").glob("*.txt"), key=lambda file: int(file.stem))
    return list(map(_mail, (file.read_text(encoding="utf-8") for file in files)))


def _mail(text: str) -> Mail:
    head, _, body = text.partition("\n\n")
    said = dict(line.split(": ", 1) for line in head.splitlines())
    return Mail(said["To"], said["Subject"], body)


def opened(endpoint_url: str, link: str) -> tuple[int, bytes]:
    """Open a link where the double answers for its host."""
    split = urlsplit(link)
    request = urllib.request.Request(f"{endpoint_url}{split.path}?{split.query}", headers={"Host": split.netloc})
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as refusal:
        return refusal.code, refusal.read()


def rows_in(content: bytes, names: Sequence[str]) -> Counter[tuple[str, ...]]:
    """Count the rows of a CSV file by these columns."""
    rows = csv.DictReader(io.StringIO(content.decode("utf-8-sig")))
    return Counter(tuple(row[name] for name in names) for row in rows)
