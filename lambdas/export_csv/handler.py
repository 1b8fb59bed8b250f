"""Lambda's entry point: one run of an export, or the key of its links.

A schedule sends `{"export": NAME, "at": TIME}`: the last whole window before that time, which a retry has in common
with the first attempt. By hand, `{"export": NAME}` is the last whole window, and `{"export": NAME, "from": DAY,
"to": DAY}` any other. Terraform sends `{"link_key": SECRET}`: the answer is the public key, and the private one is made
where there is none.

Every failure is raised. Lambda then invokes the function again, twice, and it continues after the last finished file;
then the event goes to the dead-letter queue, which raises an alarm. That the time is not enough is such a failure too.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

SPARE_SECONDS = 60.0
"""What must be left of the function's time for another file of an export to be begun."""
LAST_SECONDS = 20.0
"""What must be left for another file of the table to be read: an error that says why is better than to be ended."""


def handler(event: Mapping[str, Any], context: Any) -> dict[str, Any]:
    """Do what the event says. What it returns is in the log."""
    import boto3  # type: ignore[import-untyped]  # noqa: PLC0415 - the tests bring their own clients

    if event.get("tf", {}).get("action") == "delete":
        return {}
    if "link_key" in event:
        return _link_key(boto3, str(event["link_key"]), str(context.aws_request_id))
    try:
        done = _export(boto3, event, context)
    except Exception as failed:
        print(json.dumps({"event": "export_failed", "asked": dict(event), "error": type(failed).__name__,
                          "why": str(failed)}))  # fmt: skip
        raise
    print(json.dumps({"event": "exported", **done}))
    return done


def _link_key(boto3: Any, secret: str, token: str) -> dict[str, Any]:
    from lambdas.export_csv.link_key import LinkKeys, when_allowed  # noqa: PLC0415 - a tenth of the rest to import

    keys = LinkKeys(boto3.client("secretsmanager"), secret)
    return {"public_key": when_allowed(lambda: keys.made(token).public_pem, time.sleep)}


def _export(boto3: Any, event: Mapping[str, Any], context: Any) -> dict[str, Any]:
    from lambdas.export_csv.announcing import Announcing  # noqa: PLC0415 - loads Arrow, which a link's key does not need
    from lambdas.export_csv.configuration import read_configuration  # noqa: PLC0415
    from lambdas.export_csv.exporting import period_of, run  # noqa: PLC0415
    from lambdas.export_csv.link_key import LinkKeys  # noqa: PLC0415

    configuration = read_configuration(boto3.client("s3"), os.environ["FRAZIL_EXPORTS"])
    wanted = configuration.asked_for(event)
    end = time.monotonic() + context.get_remaining_time_in_millis() / 1000
    now = datetime.now(UTC)
    ran = run(
        wanted.spec,
        configuration.catalog,
        period_of(wanted.spec, event, now),
        may_continue=lambda: time.monotonic() < end - SPARE_SECONDS,
        may_read=lambda: time.monotonic() < end - LAST_SECONDS,
    )
    links = configuration.links
    announcing = Announcing(
        spec=wanted.spec,
        topic=wanted.topic,
        mail=wanted.mail,
        folder=ran.folder,
        sns=boto3.client("sns"),
        signer=None if links is None else links.signer(LinkKeys(boto3.client("secretsmanager"), links.secret)),
        now=now,
    )
    return {"export": wanted.spec.name, **ran.summary, **announcing.announce(ran.exported.finished)}
