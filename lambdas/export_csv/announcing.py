"""Announces finished sets of files to the subscribers of a topic, each set once.

A file beside the manifest says that it was announced. It is written after the message is sent: a run that dies in
between announces the same set again rather than never.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from frazil.adapters.storage.export_folder import ExportFolder
from frazil.exports.editions import INCREMENTS, Edition, Editions, edition_of
from frazil.exports.manifest import Manifest
from frazil.model.exports import ExportSpec
from frazil.model.moments import rfc3339
from lambdas.export_csv.links import Signer
from lambdas.export_csv.mail import Mail, mail_of

CONFIRMED = "arn:"
"""The beginning of the ARN of a subscription. SNS says `PendingConfirmation` in its place for an address that did not
confirm, which it forgets after 48 hours, and `Deleted` for days after one has unsubscribed."""


@dataclass(frozen=True, slots=True)
class Recipients:
    """How many subscribers get a message, and how many of the addresses that should get it do not."""

    confirmed: int
    unconfirmed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Announcing:
    """`mail` are the addresses that should get messages. `sns` is boto3's client; `signer` makes links, None if the
    environment has none."""

    spec: ExportSpec
    topic: str
    mail: Sequence[str]
    folder: ExportFolder
    sns: Any
    signer: Signer | None
    now: datetime

    def announce(self, finished: Sequence[Manifest]) -> dict[str, Any]:
        """Announce what was not announced yet; return counts for the log."""
        new = [each for each in finished if self._is_new(edition_of(each))]
        if new and new[0].label == INCREMENTS:
            new = [*self._before(new[0]), *new]
        if not new:
            return {"announced": 0}
        recipients = self._recipients()
        for manifest in new:
            self._send(manifest, recipients)
        return {"announced": len(new), "recipients": recipients.confirmed, "unconfirmed": recipients.unconfirmed}

    def _before(self, manifest: Manifest) -> list[Manifest]:
        """Return the increments before one, back to the last that was announced."""
        editions, number = Editions(manifest.export, INCREMENTS, self.folder), manifest.number
        while number > 1 and self._is_new(replace(edition_of(manifest), number=number - 1)):
            number -= 1
        return [editions.manifest(each) for each in range(number, manifest.number)]

    def _is_new(self, edition: Edition) -> bool:
        """Return whether a set of files was not announced yet."""
        return not self.folder.has(edition.announcement)

    def _send(self, manifest: Manifest, recipients: Recipients) -> None:
        mail = self._mail(manifest)
        sent = self.sns.publish(TopicArn=self.topic, Subject=mail.subject, Message=mail.text)
        content = {
            "message_id": sent["MessageId"],
            "topic": self.topic,
            "recipients": recipients.confirmed,
            "unconfirmed": recipients.unconfirmed,
            "links_end_at": None if mail.links_end_at is None else rfc3339(mail.links_end_at),
            "announced_at": rfc3339(self.now),
        }
        self.folder.put(edition_of(manifest).announcement, json.dumps(content, indent=2).encode())

    def _mail(self, manifest: Manifest) -> Mail:
        if self.signer is None or self.spec.link_seconds is None:
            return mail_of(manifest, self.folder.address)
        until = self.now.replace(microsecond=0) + timedelta(seconds=self.spec.link_seconds)
        names = [*(part.name for part in manifest.parts), edition_of(manifest).manifest]
        links = self.signer.links([self.folder.address_of(name) for name in names], until)
        return mail_of(manifest, self.folder.address, dict(zip(names, links, strict=True)), until)

    def _recipients(self) -> Recipients:
        confirmed = [each for each in self._subscriptions() if each["SubscriptionArn"].startswith(CONFIRMED)]
        reached = {each["Endpoint"].lower() for each in confirmed}
        return Recipients(len(confirmed), len({each.lower() for each in self.mail} - reached))

    def _subscriptions(self) -> Iterator[Mapping[str, str]]:
        for page in self.sns.get_paginator("list_subscriptions_by_topic").paginate(TopicArn=self.topic):
            yield from page["Subscriptions"]
