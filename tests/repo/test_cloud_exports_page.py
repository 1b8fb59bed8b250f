"""The settings of the page on exports in the cloud are accepted, and its mail is the one that recipients get."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from pathlib import Path
from textwrap import dedent
from zoneinfo import ZoneInfo

from pages import ROOT, Fence, fences

from frazil.exports.manifest import Manifest
from frazil.exports.parts import Part
from frazil.model.exports import Period
from infra.settings.file import load_environment
from infra.wanted.exports import wanted_exports
from lambdas.export_csv.links import Signer
from lambdas.export_csv.mail import mail_of
from shared.rsa_key import RsaKey

PAGE = ROOT / "docs" / "exports-in-the-cloud.md"
BUCKET = "s3://frazil-dev-111122223333-eu-central-1"
FOLDER = f"{BUCKET}/exports/payments_weekly/2026-W03"
BERLIN = ZoneInfo("Europe/Berlin")
ENVIRONMENT = """
region: eu-central-1
kafka:
  external: {bootstrap.servers: "b:9092", security.protocol: plaintext, registry: {url: "http://r:8081"}}
"""


def of(language: str) -> list[Fence]:
    return [fence for fence in fences(PAGE) if fence.language == language]


def test_the_spec_and_the_settings_become_an_export(tmp_path: Path) -> None:
    spec, settings = (dedent(fence.body) for fence in of("yaml"))
    (tmp_path / "exports").mkdir()
    (tmp_path / "exports" / "payments_weekly.yaml").write_text(spec)
    (tmp_path / "small.yaml").write_text(ENVIRONMENT + settings)

    (export,) = wanted_exports(load_environment("small", {}, folder=tmp_path), tmp_path / "exports", {})

    assert (export.cloud.schedule, export.time_zone) == ("cron(0 7 ? * MON *)", "Europe/Berlin")
    assert export.cloud.mail == ("finance@example.com",)
    assert export.spec.link_seconds == 7 * 24 * 60 * 60


def test_the_mail_is_the_one_that_recipients_get() -> None:
    part = Part("payments_weekly_2026-W03_part_1.csv", 2, 120, "ab12", 1)
    week = Period("2026-W03", datetime(2026, 1, 12, tzinfo=BERLIN), datetime(2026, 1, 19, tzinfo=BERLIN))
    snapshot, now = 2842378592236346146, datetime(2026, 1, 19, 6, tzinfo=UTC)
    manifest = Manifest(
        "payments_weekly", "lake.payments", "uuid", week.label, 0, "all rows", snapshot, "tag", 2, (part,), (), {}, now,
        week, "kafka_timestamp", "Europe/Berlin",
    )  # fmt: skip
    until, names = datetime(2026, 1, 26, 6, 0, 12, tzinfo=UTC), [part.name, "manifest.json"]
    key = RsaKey.new(2048)
    signer = Signer("https://d111111abcdef8.cloudfront.net", "K2", lambda: key)
    links = dict(zip(names, signer.links([f"{FOLDER}/{name}" for name in names], until), strict=True))

    found = mail_of(manifest, FOLDER, links, until)

    assert found.subject == "payments_weekly 2026-W03: 2 rows"
    assert re.sub(r"Expires=.*", "Expires=…", found.text) == of("")[0].body


def test_the_line_of_the_log_has_the_names_that_runs_print() -> None:
    (line,) = (json.loads(fence.body) for fence in of("json"))

    printed = {"event", "export", "window", "files", "rows", "announced", "recipients", "unconfirmed"}
    assert set(line) == printed
