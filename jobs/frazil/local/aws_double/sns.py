"""SNS: put what is sent to an e-mail address into a file, one for each message and address. moto sends no mails.

Each address counts as confirmed at once, as moto has it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from moto.sns.models import Subscription

from frazil.local.aws_double.place import DoubleFolder

WRITING = threading.Lock()


def teach(place: DoubleFolder) -> None:
    Subscription.publish = _also_by_mail(Subscription.publish, place.mail)


def _also_by_mail(publish: Callable[..., None], folder: Path) -> Callable[..., None]:
    def published(subscription: Any, message: str, message_id: str, subject: str | None = None, **others: Any) -> None:
        if subscription.protocol == "email":
            write_mail(folder, to=subscription.endpoint, subject=subject or "AWS Notification Message", text=message)
        else:
            publish(subscription, message, message_id, subject, **others)

    return published


def write_mail(folder: Path, *, to: str, subject: str, text: str) -> None:
    """Write the next file: `1.txt`, `2.txt` and so on."""
    with WRITING:
        number = len(list(folder.glob("*.txt"))) + 1
        (folder / f"{number}.txt").write_text(f"To: {to}\nSubject: {subject}\n\n{text}", encoding="utf-8")
