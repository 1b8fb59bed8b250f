"""The stack of the exports: schedules, mails, links and permissions."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from written import KAFKA, Written, dev, write

from frazil.model.errors import SettingError
from infra.artefacts.artefact import Artefact
from infra.cdk import App
from infra.settings.model import CloudExport, EnvironmentSettings
from infra.stacks.exports import ExportsStack
from infra.stacks.lake import LakeStack
from infra.wanted.exports import WantedExport, have_links, wanted_exports

SPEC = """
table: orders
to: .frazil/exports
window: {column: kafka_timestamp, time_zone: Europe/Berlin}
"""
PACKED = Artefact("export_csv.zip", "ab" * 32, 70_000_000)
MONDAY = "cron(0 7 ? * MON *)"
ALARMS = "arn:aws:sns:us-east-1:1:frazil-dev-alarms"


def synthesized(folder: Path, spec: str = SPEC, **cloud: Any) -> dict[str, Written]:
    settings = dev(exports={"weekly": CloudExport(**{"schedule": MONDAY, "time_zone": None, "mail": (), **cloud})})
    return written(folder, settings, wanted_exports(settings, specs(folder, {"weekly": spec}), {}))


def written(folder: Path, settings: EnvironmentSettings, wanted: tuple[WantedExport, ...]) -> dict[str, Written]:
    def build(app: App) -> None:
        lake = LakeStack(app, settings, kafka=KAFKA, links=have_links(wanted))
        ExportsStack(app, settings, lake=lake, alarms_topic_arn=ALARMS, exports=wanted, packed=PACKED)

    return write(folder / "out", settings, build)


def specs(folder: Path, texts: Mapping[str, str]) -> Path:
    (folder / "exports").mkdir()
    for name, text in texts.items():
        (folder / "exports" / f"{name}.yaml").write_text(text)
    return folder / "exports"


def subscriptions(folder: Path, addresses: tuple[str, ...]) -> dict[str, str]:
    """Return the names of the resources that subscribe addresses."""
    folder.mkdir()
    found = synthesized(folder, mail=addresses)["exports"].of("aws_sns_topic_subscription")
    return {each["endpoint"]: name for name, each in found.items()}


def document(stack: Written) -> Any:
    return json.loads(stack.of("aws_s3_object")["settings"]["content"])


def test_an_export_is_due_in_its_time_zone_and_announced_to_its_addresses(tmp_path: Path) -> None:
    stack = synthesized(tmp_path, mail=("a@example.com", "b@example.com"))["exports"]

    schedule = stack.of("aws_scheduler_schedule")["schedules/export-weekly"]
    due = (schedule["schedule_expression"], schedule["schedule_expression_timezone"])
    assert due == (MONDAY, "Europe/Berlin")
    assert json.loads(schedule["target"]["input"]) == {"export": "weekly", "at": "<aws.scheduler.scheduled-time>"}
    assert schedule["target"]["arn"] == "{function/function.arn}"
    topic = stack.of("aws_sns_topic")["topic-weekly"]
    assert topic["name"] == "frazil-dev-export-weekly"
    told = {(each["protocol"], each["endpoint"]) for each in stack.of("aws_sns_topic_subscription").values()}
    assert told == {("email", "a@example.com"), ("email", "b@example.com")}


def test_an_address_that_is_removed_changes_the_subscription_of_no_other(tmp_path: Path) -> None:
    addresses = ("a@example.com", "b@example.com", "c@example.com")
    before, after = (subscriptions(tmp_path / str(len(each)), each) for each in (addresses, addresses[1:]))

    assert [each for each in before if each not in after] == ["a@example.com"]
    assert after == {address: name for address, name in before.items() if address in after}


def test_the_function_is_taken_from_the_bucket_and_tries_three_times(tmp_path: Path) -> None:
    stack = synthesized(tmp_path)["exports"]

    function = stack.of("aws_lambda_function")["function/function"]
    assert "filename" not in function
    assert function["s3_key"] == f"artefacts/{'ab' * 32}/export_csv.zip"
    assert function["source_code_hash"] == "q6urq6urq6urq6urq6urq6urq6urq6urq6urq6urq6s="
    assert function["dead_letter_config"] == {"target_arn": "{failed.arn}"}
    retries = stack.one("aws_lambda_function_event_invoke_config")
    assert retries["maximum_retry_attempts"] == 2
    assert retries["destination_config"] == {"on_failure": {"destination": ALARMS}}
    failed = stack.of("aws_cloudwatch_metric_alarm")["export-failed"]
    assert failed["metric_query"]["metric"]["dimensions"] == {"QueueName": "{failed.name}"}
    assert failed["alarm_actions"] == [ALARMS]
    dropped = stack.of("aws_cloudwatch_metric_alarm")["export-not-started"]
    assert dropped["alarm_description"].endswith("run what was due by hand (docs/exports-in-the-cloud.md).")


def test_the_settings_of_the_function_name_what_is_in_the_cloud(tmp_path: Path) -> None:
    found = document(synthesized(tmp_path, mail=("a@example.com",))["exports"])

    spec = found["exports"]["weekly"]["spec"]
    assert spec["table"].endswith(".orders")
    assert (spec["to"].startswith("s3://"), spec["to"].endswith("/exports")) == (True, True)
    assert spec["source_file"] == "exports/weekly.yaml"
    assert found["exports"]["weekly"]["topic"] == "{topic-weekly.arn}"
    assert found["exports"]["weekly"]["mail"] == ["a@example.com"]
    assert found["links"] is None


def test_without_links_nothing_serves_the_bucket(tmp_path: Path) -> None:
    stacks = synthesized(tmp_path)

    assert not [kind for kind in stacks["exports"].types() if "cloudfront" in kind]
    assert not stacks["exports"].of("aws_secretsmanager_secret")
    assert "cloudfront" not in json.dumps(stacks["lake"].document["resource"])


def test_links_open_exported_files_only_with_a_key_of_the_group(tmp_path: Path) -> None:
    stacks = synthesized(tmp_path, SPEC + "link: 7d\n")
    stack, lake = stacks["exports"], stacks["lake"]

    distribution = stack.of("aws_cloudfront_distribution")["links/distribution"]
    behaviour = distribution["default_cache_behavior"]
    assert behaviour["trusted_key_groups"] == ["{links/keys.id}"]
    assert behaviour["viewer_protocol_policy"] == "https-only"
    assert distribution["origin"]["origin_access_control_id"] == "{links/access.id}"
    assert stack.one("aws_cloudfront_key_group")["items"] == ["{links/public-key.id}"]
    assert "public_key" in stack.one("aws_cloudfront_public_key")["encoded_key"]
    assert document(stack)["links"] == {
        "address": "https://{links/distribution.domain_name}",
        "key_id": "{links/public-key.id}",
        "secret": "{link-key.name}",
    }
    (serving,) = [each for each in lake.policy("aws_s3_bucket_policy", "bucket/policy") if each["Effect"] == "Allow"]
    assert serving["Action"] == "s3:GetObject"
    assert serving["Resource"] == "{bucket/bucket.arn}/exports/*"
    assert serving["Principal"] == {"Service": "cloudfront.amazonaws.com"}
    assert serving["Condition"]["ArnLike"]["aws:SourceArn"].endswith(":distribution/*")


def test_the_function_may_tag_its_tables_and_write_exports_and_no_more(tmp_path: Path) -> None:
    allowed = synthesized(tmp_path)["exports"].policy("aws_iam_role_policy", "function/acts-as/policy")

    actions = {each["Sid"]: each["Action"] for each in allowed if "Sid" in each}
    assert actions["TableFiles"] == ["s3:GetObject", "s3:PutObject"]
    assert actions["Tables"] == ["glue:GetTable", "glue:UpdateTable"]
    assert "LinkKey" not in actions
    resources = {each["Sid"]: each["Resource"] for each in allowed if "Sid" in each}
    assert resources["TableFiles"].endswith("/lkc-1y3y5/orders/*")
    assert actions["OldMetadata"] == "s3:DeleteObject"
    assert resources["OldMetadata"].endswith("/lkc-1y3y5/orders/metadata/*.metadata.json")
    assert resources["ExportFiles"].endswith("/exports/*")
    assert resources["Tables"].endswith("/orders")


def test_the_policy_of_many_exports_is_no_longer_than_iam_takes(tmp_path: Path) -> None:
    names = [f"orders_of_{number}" for number in range(21)]
    texts = {name: SPEC.replace("orders", name) for name in names}
    settings = dev(exports={name: CloudExport(None, None, ()) for name in names})
    wanted = wanted_exports(settings, specs(tmp_path, texts), {})

    policy = written(tmp_path, settings, wanted)["exports"].policy("aws_iam_role_policy", "function/acts-as/policy")

    resources = {each["Sid"]: each["Resource"] for each in policy if "Sid" in each}
    assert resources["TableFiles"].endswith("/lkc-1y3y5/*")
    assert resources["OldMetadata"].endswith("/lkc-1y3y5/*/metadata/*.metadata.json")
    assert resources["Tables"].endswith("/*")
    assert resources["ExportTopics"].endswith(":frazil-dev-export-*")


def test_the_settings_object_has_no_tags_because_s3_takes_ten(tmp_path: Path) -> None:
    stored = synthesized(tmp_path)["exports"].one("aws_s3_object")

    assert stored["override_provider"] == {"default_tags": {"tags": {}}}
    assert "tags" not in stored


def test_an_export_without_a_schedule_is_run_by_hand(tmp_path: Path) -> None:
    stack = synthesized(tmp_path, schedule=None)["exports"]

    assert stack.of("aws_scheduler_schedule") == {}
    assert set(stack.of("aws_sns_topic")) == {"topic-weekly"}


@pytest.mark.parametrize(
    ("spec", "changes", "message"),
    [
        (SPEC.replace("table: orders", "table: other.orders"), {}, "in the cloud all tables are in the environment's"),
        (SPEC.replace(".frazil/exports", "s3://mine/x"), {}, "the files go to exports/ in the environment's bucket"),
        (SPEC + "link: 7d\n", {"region": "cn-north-1"}, "CloudFront is not supported in the region cn-north-1"),
    ],
)
def test_an_export_that_cannot_run_in_the_cloud_is_refused(
    tmp_path: Path, spec: str, changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(SettingError, match=message):
        wanted_exports(settings_of("weekly", **changes), specs(tmp_path, {"weekly": spec}), {})


def test_an_export_without_a_spec_is_refused_with_the_similar_one(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match=r"exports\.weekli: there is no spec .*exports/weekli\.yaml") as refused:
        wanted_exports(settings_of("weekli"), specs(tmp_path, {"weekly": SPEC}), {})

    assert refused.value.hint == "did you mean weekly?"


def settings_of(name: str, **changes: Any) -> EnvironmentSettings:
    return replace(dev(), exports={name: CloudExport(None, None, ())}, **changes)
