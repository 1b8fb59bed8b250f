"""What the export function announces to whom, and the links in it."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast
from urllib.parse import parse_qs, urlsplit

import pytest
from botocore.signers import CloudFrontSigner
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.hashes import SHA1
from cryptography.hazmat.primitives.serialization import load_pem_public_key

from frazil.adapters.storage.export_folder import ExportFolder
from frazil.exports.editions import INCREMENTS, edition_of
from frazil.exports.manifest import Contents, Manifest, written
from frazil.exports.parts import Part
from frazil.model.errors import Misuse, SettingError
from frazil.model.exports import ExportSpec, ExportWindow, Period
from frazil.model.settings import CatalogSettings
from lambdas.export_csv.announcing import Announcing
from lambdas.export_csv.configuration import CloudExport, Configuration, configuration_of
from lambdas.export_csv.exporting import period_of
from lambdas.export_csv.link_key import LinkKeys, when_allowed
from lambdas.export_csv.links import Signer, policy_of
from lambdas.export_csv.mail import MOST_FILES, mail_of
from shared.rsa_key import RsaKey

NOW = datetime(2026, 1, 19, 7, tzinfo=UTC)
WEEK = Period("2026-W03", datetime(2026, 1, 12, tzinfo=UTC), datetime(2026, 1, 19, tzinfo=UTC))
SPEC = ExportSpec("exports/weekly.yaml", "weekly", "lake.orders", "s3://lake/exports",
                  ExportWindow("kafka_timestamp", "week", "UTC"), link_seconds=7 * 86400)  # fmt: skip
MAIL = ("one@example.com", "two@example.com", "three@example.com")
ONE = {"One@example.com": "arn:1"}
PENDING = "PendingConfirmation"
TOPIC = "arn:aws:sns:us-east-1:1:frazil-dev-export-weekly"


def manifest(rows: int = 2, *, number: int = 0, contents: Contents = "all rows", files: int = 1) -> Manifest:
    ending = f"_correction_{number}" if number else ""
    names = [f"weekly_2026-W03{ending}_part_{n + 1}.csv" for n in range(files if rows else 0)]
    parts = tuple(Part(name, rows, 120, "ab12") for name in names)
    return Manifest("weekly", "lake.orders", "uuid", WEEK.label, number, contents, 42, "tag", rows, parts, (), {}, NOW,
                    WEEK, "kafka_timestamp")  # fmt: skip


@dataclass
class Sns:
    """A topic that remembers what was published. `fails`: as if the connection were lost."""

    subscriptions: dict[str, str] = field(default_factory=dict)
    """What SNS says of each address."""
    sent: list[dict[str, str]] = field(default_factory=list)
    fails: bool = False

    def publish(self, **message: str) -> dict[str, str]:
        if self.fails:
            raise ConnectionError
        self.sent.append(message)
        return {"MessageId": f"message-{len(self.sent)}"}

    def get_paginator(self, operation: str) -> Sns:
        assert operation == "list_subscriptions_by_topic"
        return self

    def paginate(self, **asked: str) -> Iterator[dict[str, Any]]:
        assert asked == {"TopicArn": TOPIC}
        for address, arn in self.subscriptions.items():  # a page each
            yield {"Subscriptions": [{"SubscriptionArn": arn, "Endpoint": address}]}


@dataclass
class Vault:
    """Secrets Manager with one secret, whose value is None before it has one."""

    value: str | None = None
    writes: int = 0

    class exceptions:  # noqa: N801 - as boto3's clients have it
        class ResourceNotFoundException(Exception):  # noqa: N818
            pass

        class ResourceExistsException(Exception):  # noqa: N818
            pass

    def get_secret_value(self, **asked: str) -> dict[str, str]:
        if self.value is None:
            raise self.exceptions.ResourceNotFoundException
        return {"SecretString": self.value}

    def put_secret_value(self, **given: str) -> None:
        self.value, self.writes = given["SecretString"], self.writes + 1


def announcing(folder: Path, sns: Sns, *, signer: Signer | None = None, spec: ExportSpec = SPEC) -> Announcing:
    place = ExportFolder({}, str(folder))
    return Announcing(spec=spec, topic=TOPIC, mail=MAIL, folder=place, sns=sns, signer=signer, now=NOW)


def test_increments_that_were_not_announced_are_announced_with_the_next_one(tmp_path: Path) -> None:
    sns = Sns(ONE)
    increments = [
        replace(manifest(), label=INCREMENTS, period=None, number=number, contents="new rows") for number in range(1, 6)
    ]
    for each in increments:
        (tmp_path / edition_of(each).manifest).write_bytes(written(each))
    place = announcing(tmp_path, sns)
    place.announce(increments[:2])

    told = place.announce(increments[-1:])

    assert told["announced"] == 3
    assert [each["Subject"].partition(":")[0] for each in sns.sent] == [
        f"weekly, increment {number}" for number in range(1, 6)
    ]


def test_each_set_of_files_is_announced_once(tmp_path: Path) -> None:
    sns = Sns({**ONE, MAIL[1]: PENDING, MAIL[2]: PENDING})
    first, late = manifest(), manifest(1, number=1, contents="late rows")

    told = [announcing(tmp_path, sns).announce(each) for each in ([first], [first], [first, late], [first, late])]

    assert told[0] == told[2] == {"announced": 1, "recipients": 1, "unconfirmed": 2}
    assert told[1] == told[3] == {"announced": 0}
    assert [each["Subject"] for each in sns.sent] == ["weekly 2026-W03: 2 rows", "weekly 2026-W03, correction 1: 1 row"]
    noted = json.loads((tmp_path / "announced_correction_1.json").read_text())
    assert (noted["message_id"], noted["unconfirmed"], noted["links_end_at"]) == ("message-2", 2, None)


@pytest.mark.parametrize("others", [{}, {MAIL[1]: PENDING}, {MAIL[1]: PENDING, MAIL[2]: "Deleted"}])
def test_an_address_that_gets_nothing_is_counted(tmp_path: Path, others: dict[str, str]) -> None:
    """SNS forgets an address that did not confirm after 48 hours, and one that unsubscribed after 72."""
    told = announcing(tmp_path, Sns({**ONE, **others})).announce([manifest()])

    assert told == {"announced": 1, "recipients": 1, "unconfirmed": 2}


def test_what_could_not_be_sent_is_announced_by_the_next_run(tmp_path: Path) -> None:
    with pytest.raises(ConnectionError):
        announcing(tmp_path, Sns(fails=True)).announce([manifest()])

    assert announcing(tmp_path, Sns()).announce([manifest()])["announced"] == 1


def test_a_mail_has_counts_window_and_files(tmp_path: Path) -> None:
    sns = Sns()

    announcing(tmp_path, sns).announce([replace(manifest(), complete_through=NOW)])

    assert sns.sent[0]["TopicArn"] == TOPIC
    assert sns.sent[0]["Message"] == (
        "weekly 2026-W03: 2 rows\n\n"
        "Contents: all rows of the window\n"
        "Window: kafka_timestamp from 2026-01-12T00:00:00+00:00 up to 2026-01-19T00:00:00+00:00 (UTC)\n"
        "Table: lake.orders, snapshot 42\n\n"
        f"1 file in {tmp_path}\n"
        "- weekly_2026-W03_part_1.csv: 2 rows, 120 bytes\n"
        "- manifest.json: the manifest, with the checksum of each file\n\n"
        "There are no links: the files can be read with access to the bucket.\n"
    )


def test_an_empty_window_is_announced_with_0_rows() -> None:
    mail = mail_of(manifest(0), "s3://lake/exports/weekly/2026-W03")

    assert mail.subject == "weekly 2026-W03: 0 rows"
    assert "There are no rows, and so no file, only a manifest in s3://lake/exports/weekly/2026-W03\n" in mail.text


def test_a_mail_names_a_limited_number_of_files() -> None:
    found = mail_of(manifest(1, files=MOST_FILES + 2), "s3://lake/exports").text

    assert "- and 2 more files: see the manifest" in found
    assert found.count("_part_") == MOST_FILES


def signed(url: str, public: RSAPublicKey) -> datetime:
    """Check a link as CloudFront does, and return its end."""
    split = urlsplit(url)
    (until,), (signature,) = (parse_qs(split.query)[name] for name in ("Expires", "Signature"))
    given = base64.b64decode(signature.encode().translate(bytes.maketrans(b"-_~", b"+=/")), validate=True)
    resource = f"{split.scheme}://{split.netloc}{split.path}"
    public.verify(given, policy_of(resource, int(until)), PKCS1v15(), SHA1())
    return datetime.fromtimestamp(int(until), UTC)


def test_a_link_is_signed_for_one_file_and_one_time() -> None:
    key = RsaKey.new(2048)
    public = cast("RSAPublicKey", load_pem_public_key(key.public_pem.encode()))
    signer = Signer("https://d1.cloudfront.net", "K2", lambda: key)

    (link, other) = signer.links(["s3://lake/exports/a/x_1.csv", "s3://lake/exports/a/x_2.csv"], NOW)

    assert link.startswith("https://d1.cloudfront.net/exports/a/x_1.csv?Expires=1768806000&Signature=")
    assert link.endswith("&Key-Pair-Id=K2")
    assert signed(link, public) == signed(other, public) == NOW
    for changed in (link.replace("x_1", "x_2"), link.replace("1768806000", "1768806001")):
        with pytest.raises(InvalidSignature):
            signed(changed, public)


def test_the_policy_is_that_of_botocore() -> None:
    theirs = CloudFrontSigner("K2", lambda message: message).build_policy("https://d1/x", NOW)

    assert policy_of("https://d1/x", int(NOW.timestamp())) == theirs.encode()


def test_a_mail_has_a_link_for_each_file_that_lasts_as_long_as_the_spec_says(tmp_path: Path) -> None:
    key, sns = RsaKey.new(2048), Sns()
    place = ExportFolder({}, str(tmp_path))
    place.address = "s3://lake/exports/weekly/2026-W03"
    signer = Signer("https://d1.cloudfront.net", "K2", lambda: key)

    replace(announcing(tmp_path, sns, signer=signer), folder=place).announce([manifest()])

    text = sns.sent[0]["Message"]
    links = [line for line in text.splitlines() if line.startswith("https://")]
    assert [urlsplit(link).path.rsplit("/", 1)[-1] for link in links] == ["weekly_2026-W03_part_1.csv", "manifest.json"]
    public = cast("RSAPublicKey", load_pem_public_key(key.public_pem.encode()))
    assert {signed(link, public) for link in links} == {NOW + timedelta(days=7)}
    assert "The links open the files until 2026-01-26T07:00:00Z, for everyone who has them." in text


def test_no_link_for_personal_data(tmp_path: Path) -> None:
    sns = Sns()
    signer = Signer("https://d1.cloudfront.net", "K2", lambda: pytest.fail("the key is not read"))

    announcing(tmp_path, sns, signer=signer, spec=replace(SPEC, link_seconds=None)).announce([manifest()])

    assert "https://" not in sns.sent[0]["Message"]


def test_the_key_of_links_is_made_once() -> None:
    vault = Vault()
    keys = LinkKeys(vault, "frazil/dev/link-key")
    with pytest.raises(SettingError, match="frazil/dev/link-key has no key"):
        keys.current()

    first, again = keys.made("one"), keys.made("two")

    assert first.public_pem == again.public_pem == keys.current().public_pem
    assert vault.writes == 1
    assert first.public_pem.startswith("-----BEGIN PUBLIC KEY-----\n")


def test_a_role_that_is_new_is_given_time() -> None:
    denied = Exception()
    denied.response = {"Error": {"Code": "AccessDeniedException"}}  # type: ignore[attr-defined]
    answers, pauses = iter([denied, denied, None]), list[float]()

    def act() -> str:
        answer = next(answers)
        if answer is not None:
            raise answer
        return "done"

    assert when_allowed(act, pauses.append) == "done"
    assert pauses == [5.0, 5.0]
    with pytest.raises(ZeroDivisionError):
        when_allowed(lambda: str(1 / 0), pauses.append)


@pytest.mark.parametrize(
    ("event", "label"),
    [
        ({}, "2026-W03"),
        ({"at": "2026-01-12T06:00:00Z"}, "2026-W02"),
        ({"from": "2026-01-05", "to": "2026-01-12"}, "2026-W02"),
        ({"from": "2026-01-05", "to": "2026-01-07"}, "20260105T000000Z_20260107T000000Z"),
    ],
)
def test_a_retry_after_midnight_exports_the_same_period(event: dict[str, str], label: str) -> None:
    found = period_of(SPEC, event, NOW)

    assert found is not None
    assert found.label == label
    incremental = replace(SPEC, window=None)
    if "from" not in event:
        assert period_of(incremental, event, NOW) is None
        return
    with pytest.raises(Misuse, match="weekly is incremental: it has no window"):
        period_of(incremental, event, NOW)


@pytest.mark.parametrize(
    ("event", "what", "hint"),
    [
        ({"from": "2026-01-05"}, "the event has from alone", "give from and to"),
        ({"at": "next Monday"}, '"at": "next Monday" is no time', "2026-01-19T06:00:00Z"),
    ],
)
def test_times_that_are_none_are_refused(event: dict[str, str], what: str, hint: str) -> None:
    with pytest.raises(Misuse, match=what) as refused:
        period_of(SPEC, event, NOW)

    assert hint in refused.value.hint


@pytest.mark.parametrize("event", [{}, {"name": "weekly"}, {"export": ["weekly"]}])
def test_an_event_without_an_export_says_what_to_invoke(event: dict[str, object]) -> None:
    configuration = Configuration(
        CatalogSettings("glue", "s3://lake", {}), {"weekly": CloudExport(SPEC, TOPIC, MAIL)}, None
    )

    with pytest.raises(Misuse, match="the event names no export") as refused:
        configuration.asked_for(event)

    assert '{"export": "weekly"}' in refused.value.hint


def test_an_unknown_export_is_refused_with_the_similar_one() -> None:
    value = {
        "catalog": {"warehouse": "s3://lake/kafka", "properties": {}},
        "links": None,
        "exports": {"weekly": {"spec": SPEC.to_json(), "topic": TOPIC, "mail": MAIL}},
    }
    configuration = configuration_of(json.loads(json.dumps(value)))

    assert configuration.asked_for({"export": "weekly"}).spec == SPEC
    with pytest.raises(Misuse) as refused:
        configuration.named("weekly_")
    assert refused.value.hint == "did you mean weekly?"
