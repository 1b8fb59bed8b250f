"""End to end: scripts/deploy.sh deploys a checkout to the local cloud, and the job runs there.

All tests share one deployment, in this order: created, used, damaged, upgraded, deleted.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import boto3
import pytest
from checkout_copy import SIDES, TOTALS, copy_of_checkout, keep_artefacts
from deployed import COLD, HOT, KICKSTARTERS, OF_THE_USER, REGION, Deployed, Running
from deployer_calls import not_allowed
from keys import Keys, User, ages_told, rotated_secrets
from life import ROLES, Life, Tables, proven
from mails import mails, opened, rows_in
from permission_proof import Granted, refused, unused
from sales import CLEAN, EVENTS, FLAT, FLAT_ROWS, KEYS, SALES, TRUTH, WEEKLY, by_id, make_keys, send_sales, sent_to
from search import files_with, written_files
from trades import produce_all_the_time, send_bad_records, send_with_a_new_field
from waiting import eventually

from frazil.adapters.aws.secrets import SecretsManager
from frazil.local.aws_double.leash import END_SECONDS
from frazil.local.produce import produce
from frazil.specs.load import load_settings
from infra.deploy.deleting.inventory import Names, look
from infra.permissions.deployer_policy import actions
from infra.reports.costs import read_stacks
from shared.snowflake_login import LoginRefusedError, SnowflakeSession
from tests.sampling import in_long_runs

pytestmark = [
    pytest.mark.skipif(shutil.which("terraform") is None, reason="Terraform is not installed"),
    pytest.mark.timeout(1600),
]
KEEPS_STREAMING = "frazil-local-keep-streaming"
LEASH_SECONDS = 5 * END_SECONDS
"""A command of the double may outlive it by as long as its leash gives it to end."""
TELLS_AGES = "frazil-local-tell-key-ages"
EXPORTS = "frazil-local-exports"
"""The function, and the group of its schedules."""

EXPORTS_WEEKLY = "frazil-local-export-stock_trades_weekly"
EXPORTS_SALES = f"frazil-local-export-{WEEKLY}"
EXPORTED = ("userid", "side", "symbol", "quantity", "price", "account")
READER, LOADER = "frazil/local/snowflake/reader", "frazil/local/snowflake/loader"
NAMES = Names(
    prefix="frazil-local",
    bucket=f"frazil-local-123456789012-{REGION}",
    database="",
    secret_prefix="frazil/local/",
    log_groups=("/frazil/local/", "/aws/lambda/frazil-local-"),
)
"""By which everything of the environment is found, whatever Terraform says."""

DIFFERENCES = f"""
    WITH expected AS (SELECT kafka_timestamp, userid, side, symbol, count(*) FROM {HOT} GROUP BY ALL),
        found AS (SELECT traded_at, userid, side, symbol, trades FROM {TOTALS})
    SELECT count(*) FROM (FROM expected EXCEPT ALL FROM found)
    UNION ALL SELECT count(*) FROM (FROM found EXCEPT ALL FROM expected)
"""
"""How many totals are missing, and how many are there that should not be."""

TOTAL_KEY = ("traded_at", "userid", "side", "symbol")

KNOWN_DRIFTS: dict[str, str] = {}
"""Resources that Terraform would change although nothing did, by address, and what the double lacks."""

MOST_MEGABYTES_OF_A_FUNCTION = 50
"""What Lambda takes in one request; a remote run of Terraform uploads as much."""

NEVER_SEEN = {
    "logs:CreateLogGroup": "EMR Serverless wants it before it writes a run's logs; the double finds the group there",
    "logs:DescribeLogGroups": "EMR Serverless looks for the group by listing; the double takes it by its name",
    "logs:DescribeLogStreams": "EMR Serverless looks for the stream by listing; the double makes it",
}
"""Actions that a policy allows and no call here needs: AWS's documentation asks for them, and why."""


@pytest.fixture(scope="module")
def life(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Life]:
    deployed = copy_of_checkout(tmp_path_factory.mktemp(f"deployed-{os.getpid()}", numbered=False))
    try:
        yield Life(deployed)
    finally:
        keep_artefacts(deployed.checkout)
        deployed.stop()


@pytest.fixture(scope="module")
def deployed(life: Life) -> Deployed:
    return life.deployed


@pytest.fixture(scope="module")
def tables(deployed: Deployed) -> Iterator[Tables]:
    with pytest.MonkeyPatch.context() as environment:
        for name, value in deployed.credentials().items():
            environment.setenv(name, value)
        environment.delenv("AWS_PROFILE", raising=False)
        yield Tables(deployed, load_settings(deployed.environment / "frazil.yaml", os.environ, SecretsManager()))


@dataclass(frozen=True)
class Unchanged:
    """A `create` with nothing changed, at work while tests use what is there."""

    create: Running
    runs_before: list[str]
    log_before: int


@pytest.fixture(scope="module")
def unchanged(deployed: Deployed) -> Unchanged:
    runs, log = deployed.active_runs(), len(deployed.terraform_log)
    return Unchanged(deployed.begin("create"), runs, log)


@dataclass(frozen=True)
class Rotating:
    """A `rotate` of all keys, at work while tests use what is there, and a client that logged in before."""

    rotation: Running
    account: Mapping[str, str]
    user: User
    client: SnowflakeSession
    logout: ExitStack


@pytest.fixture(scope="module")
def rotating(life: Life) -> Rotating:
    keys, logout = Keys(life.deployed), ExitStack()
    account, user = keys.of("frazil/local/producer"), keys.user(READER)
    client = logout.enter_context(user.logged_in())
    return Rotating(life.deployed.begin("rotate"), account, user, client, logout)


# made


@in_long_runs
def test_a_create_whose_terraform_dies_says_what_to_do(life: Life) -> None:
    """Killed while it makes the second stack: as out of memory would. The unit tests of Terraform kill a stand-in."""
    create = life.deployed.begin("create")
    create.until(lambda: "  confluent: " in create.errors.read_text())

    create.kill_terraform()

    ended = create.end()
    life.ends.append(ended)
    assert ended.status == 1, ended.said
    assert "TerraformError: terraform apply of the stack confluent failed" in ended.stderr
    assert "rerun the same command: it resumes where it stopped" in ended.stderr


def test_a_create_that_is_interrupted_leaves_a_state_that_tells_the_truth(life: Life) -> None:
    create = life.deployed.begin("create")
    create.until(lambda: "  lake: " in create.errors.read_text())

    create.interrupt()

    ended = create.end()
    life.ends.append(ended)
    assert ended.status == 130, ended.said
    assert "lake: interrupted" in ended.stderr
    assert not any("terraform apply" in " ".join(process.cmdline()) for process in life.deployed.processes())
    life.deployed.share_provider()
    make_keys(life.deployed)
    life.secrets |= {*KEYS.values()}


def test_a_create_goes_on_where_the_last_one_stopped_and_keeps_others_out(life: Life) -> None:
    create = life.deployed.begin("create", *KICKSTARTERS)
    create.until(lambda: "ok      Python" in create.errors.read_text())

    second = life.deployed.deploy("create")

    ended = life.create(create.end)
    assert second.status == 1
    assert f"another run is in progress for the environment local: process {create.process.pid}" in second.stderr
    assert re.search(r"^The environment local is deployed: \d+ resources\.$", ended.stdout, re.MULTILINE)
    assert "USD a month while nothing runs" in ended.stdout
    assert "lake: aws_s3_bucket" in life.deployed.said_by_all
    assert any(line.startswith("terraform apply") for line in ended.command_lines)
    assert any("infra.deploy create" in line for line in ended.command_lines)
    (packed,) = re.findall(r"packed rotate_keys\.zip: ([\d.]+) MB", ended.stderr)
    assert float(packed) < MOST_MEGABYTES_OF_A_FUNCTION
    assert re.search(r"FRAZIL-LOCAL, .*, warehouse COMPUTE_WH", ended.stdout), "the account came by the flag"


# used


@pytest.mark.usefixtures("rotating")
def test_the_streaming_job_writes_what_is_produced_by_itself(deployed: Deployed, tables: Tables) -> None:
    send_sales(deployed)
    deployed.frazil("local", "produce", HOT, "--rows", "2000")

    tables.until_all_of_it(HOT, rows=2000)

    status, *following = json.loads(deployed.frazil("status", HOT, "--json"))
    assert all("transform" in each for each in following)
    assert (status["state"], status["rows"], status["lag"]) == ("caught up", 2000, 0)
    tables.until_transformed(TOTALS)
    assert "2000" in deployed.frazil("query", f"SELECT sum(trades) FROM {TOTALS}")
    assert tables.rows(DIFFERENCES) == [(0,), (0,)]


def test_the_newest_total_of_each_group_is_in_the_output_topic(deployed: Deployed, tables: Tables) -> None:
    name = ", ".join(TOTAL_KEY)

    expected = {row[:4]: row[4:] for row in tables.rows(f"SELECT {name}, total, trades FROM {TOTALS}")}

    def newest() -> dict[tuple[object, ...], tuple[object, ...]]:
        found = sent_to(deployed, TOTALS)
        return {tuple(key[each] for each in TOTAL_KEY): (row["total"], row["trades"]) for key, row in found}

    found = eventually(newest, lambda seen: len(seen) == len(expected), explain=deployed.last_words)
    assert found == expected


def test_sales_are_in_their_tables_and_topic_once_and_without_personal_data(deployed: Deployed, tables: Tables) -> None:
    """The example that docs/sales-channel.md ends with: in the folders of the checkout, its keys in a secret."""
    tables.until_all_of_it(SALES, rows=len(EVENTS), dead_letters=TRUTH.malformed)
    tables.until_transformed(FLAT)

    assert by_id(as_dicts(tables, SALES, EVENTS)) == EVENTS
    assert by_id(as_dicts(tables, FLAT, FLAT_ROWS)) == FLAT_ROWS
    sent = eventually(lambda: [*sent_to(deployed, CLEAN)], lambda seen: len(seen) >= len(EVENTS))
    assert by_id(row for _, row in sent) == EVENTS


def as_dicts(tables: Tables, name: str, like: Mapping[str, Mapping[str, object]]) -> Iterator[dict[str, Any]]:
    """Yield the rows of a table with the columns of those that are expected."""
    columns = next(iter(like.values())).keys()
    quoted = ", ".join(f'"{each}"' for each in columns)
    for row in tables.rows(f"SELECT {quoted} FROM {name}"):
        yield dict(zip(columns, row, strict=True))


def test_keys_rotate_now_and_a_client_with_the_old_key_goes_on(life: Life, rotating: Rotating) -> None:
    keys, account, user = Keys(life.deployed), rotating.account, rotating.user

    ended = life.end_rotation(rotating.rotation)

    assert "keys: 8 rotated" in ended.stderr
    with rotating.logout:
        assert rotating.client.current_user() == user.name
    new = keys.user(READER)
    assert (keys.slots(new), user.fingerprint != new.fingerprint) == ([user.fingerprint, new.fingerprint], True)
    for each in (user, new):
        with each.logged_in() as client:
            assert client.current_user() == "FRAZIL_LOCAL_READER"
    now = keys.of("frazil/local/producer")
    assert not set(now.values()) & set(account.values())
    assert keys.works(now)
    assert keys.works(account)


def test_a_key_that_leaked_is_out_at_once(life: Life) -> None:
    keys = Keys(life.deployed)
    leaked = keys.user(READER)

    life.rotate("--secret=snowflake/reader", "--leaked")

    assert keys.slots(keys.user(READER)) == [keys.user(READER).fingerprint]
    with pytest.raises(LoginRefusedError), leaked.logged_in():
        pass


def test_ages_of_keys_are_told_for_the_alarm(deployed: Deployed) -> None:
    deployed.fire(TELLS_AGES)

    told = eventually(lambda: ages_told(deployed), lambda seen: len(seen) >= 2 * 8, explain=deployed.last_words)
    assert {each["Secret"] for each in told} == set(rotated_secrets(deployed))
    assert {each["Environment"] for each in told} == {"local"}
    assert all(0 <= each["KeyAgeDays"] < 0.1 for each in told)


@pytest.mark.usefixtures("unchanged")
def test_a_table_with_a_schedule_is_written_by_a_batch_run_when_its_time_comes(
    deployed: Deployed, tables: Tables
) -> None:
    produce(HOT, 300, services=deployed.services, topic=COLD)
    (schedule,) = deployed.schedules() - {KEEPS_STREAMING, TELLS_AGES, EXPORTS_WEEKLY, EXPORTS_SALES}

    run = deployed.until_ended(deployed.fire(schedule)["jobRunId"])

    assert (run["state"], run["mode"]) == ("SUCCESS", "BATCH"), deployed.last_words()
    assert run["jobDriver"]["sparkSubmit"]["entryPointArguments"][-3:] == ["materialize", "--once", COLD]
    tables.until_all_of_it(COLD, rows=300)
    proven(deployed, COLD)
    delta = tables.status(COLD).delta
    assert delta is not None
    assert delta.state == "current", "the job's role may write the Delta log"
    sides = tables.rows(f"SELECT side, count(*) FROM {SIDES} GROUP BY side ORDER BY side")
    assert sides == tables.rows(f"SELECT lower(side), count(*) FROM {COLD} GROUP BY side ORDER BY side")


def test_bad_records_and_a_new_field_take_the_same_way_as_anywhere(deployed: Deployed, tables: Tables) -> None:
    send_bad_records(deployed, 3)
    send_with_a_new_field(deployed, 100)

    tables.until_all_of_it(HOT, rows=2100, dead_letters=3)

    assert "100" in deployed.frazil("query", f"SELECT count(venue) FROM {HOT}")


def test_the_weekly_export_runs_by_its_schedule_and_the_links_in_its_mail_open_the_rows(
    deployed: Deployed, tables: Tables
) -> None:
    """Next Monday comes early: its last whole week is the present one, in which the records were produced."""
    now = datetime.now(UTC)
    monday = (now + timedelta(days=7 - now.weekday())).replace(hour=0, minute=0, second=0, microsecond=0)
    at, first = f"{monday:%Y-%m-%dT07:00:00Z}", monday - timedelta(days=7)

    deployed.fire(EXPORTS_WEEKLY, group=EXPORTS, at=at)
    deployed.fire(EXPORTS_WEEKLY, group=EXPORTS, at=at)

    runs = eventually(lambda: printed(deployed), lambda seen: len(seen) >= 2, explain=deployed.last_words)
    assert [(run["rows"], run["announced"]) for run in runs] == [(2100, 1), (0, 0)], runs
    (mail,) = mails(deployed)
    assert (mail.to, mail.subject) == ("you@example.com", f"stock_trades_weekly {first:%G-W%V}: 2,100 rows")
    rows, manifest = mail.links
    place = deployed.services.aws_endpoint_url
    status, content = opened(place, rows)
    columns = ", ".join(f"CAST({name} AS varchar)" for name in EXPORTED)
    expected = tables.rows(f"SELECT {columns} FROM {HOT} WHERE kafka_timestamp >= '{first}'")
    assert (status, rows_in(content, EXPORTED)) == (200, Counter(expected))
    assert json.loads(opened(place, manifest)[1])["rows"] == 2100
    assert opened(place, rows.replace("_part_1", "_part_2"))[0] == 403
    assert opened(place, rows.partition("?")[0]) == (403, b"MissingKey")


def test_the_sales_of_a_week_are_a_file_without_a_link(deployed: Deployed, tables: Tables) -> None:
    """Their page sends no link, since personal data may be among them; the mail says where the file is."""
    before = len(printed(deployed))

    deployed.fire(EXPORTS_SALES, group=EXPORTS, at="2026-01-12T07:00:00Z")

    eventually(lambda: printed(deployed), lambda seen: len(seen) > before, explain=deployed.last_words)
    mail = mails(deployed)[-1]
    expected = tables.rows(
        f"SELECT event_id FROM {FLAT} WHERE event_time >= '2026-01-05' AND event_time < '2026-01-12'"
    )
    assert (mail.subject, mail.links) == (f"{WEEKLY} 2026-W02: {len(expected):,} rows", [])


def printed(deployed: Deployed) -> list[dict[str, Any]]:
    """Return what the function that exports printed: one line for each run."""
    events = deployed.client("logs").filter_log_events(logGroupName=f"/aws/lambda/{EXPORTS}")["events"]
    return [json.loads(each["message"]) for each in events if each["message"].startswith("{")]


def test_the_doctor_finds_everything_permitted_from_inside_the_application(deployed: Deployed) -> None:
    report = json.loads(deployed.frazil("doctor", "--application", deployed.application, "--json"))

    found = {f"{each['part']} {each['what']}": each["verdict"] for each in report["findings"]}
    assert {what for what, verdict in found.items() if verdict == "failed"} == set(), report
    well = {each["part"] for each in report["findings"] if each["verdict"] == "ok"}
    assert {"identity", "configuration", "broker", "registry", "catalog", "warehouse"} <= well, report


# hurt


def test_a_killed_run_comes_back_by_its_retry_policy(deployed: Deployed, tables: Tables) -> None:
    (run,) = deployed.active_runs()
    rows = tables.status(HOT).rows or 0
    produce(HOT, 500, services=deployed.services, seed=1)

    deployed.kill_attempt(run, 1)

    tables.until_all_of_it(HOT, rows=rows + 500, dead_letters=3)
    now = deployed.run(run)
    assert (now["state"], now["attempt"]) == ("RUNNING", 2)


def test_a_create_with_nothing_changed_changes_nothing(life: Life, unchanged: Unchanged) -> None:
    life.create(unchanged.create.end)

    said = life.deployed.terraform_log[unchanged.log_before :]
    applied = re.findall(r"^Apply complete! Resources: (.*)\.$", said, re.MULTILINE)
    drifts = re.findall(r"^  # (\S+) (?:will|must) be ", said, re.MULTILINE)
    attached = {f"snowflake_iceberg_table_from_aws_glue.iceberg-{each}" for each in (HOT, SALES)}
    assert set(drifts) - attached == set(KNOWN_DRIFTS), said
    assert len(applied) == 8
    assert {*applied[:-1]} == {"0 added, 0 changed, 0 destroyed"}
    assert applied[-1].endswith("added, 0 changed, 0 destroyed"), "Snowflake attaches tables that are new in Glue"
    assert life.deployed.active_runs() == unchanged.runs_before


def test_a_run_that_was_given_up_comes_back_when_the_keeper_looks(deployed: Deployed, tables: Tables) -> None:
    (run,) = deployed.active_runs()
    for attempt in range(2, 6):
        deployed.kill_attempt(run, attempt)
    assert deployed.until_ended(run)["state"] == "FAILED"
    assert deployed.active_runs() == []

    deployed.fire(KEEPS_STREAMING)

    (another,) = eventually(deployed.active_runs, bool, explain=deployed.last_words)
    rows = tables.status(HOT).rows or 0
    produce(HOT, 100, services=deployed.services, seed=2)
    tables.until_all_of_it(HOT, rows=rows + 100, dead_letters=3)
    assert another != run
    proven(deployed, HOT)


# upgraded


def test_an_upgrade_while_records_come_in_loses_none_and_doubles_none(life: Life, tables: Tables) -> None:
    deployed = life.deployed
    (old,) = deployed.active_runs()
    keys = Keys(deployed)
    keys.drop(keys.user(READER))
    deployed.client("secretsmanager").delete_secret(SecretId=LOADER, ForceDeleteWithoutRecovery=True)
    source = deployed.checkout / "jobs" / "frazil" / "job_run.py"
    source.write_text(source.read_text() + "\n# the next release\n")

    with produce_all_the_time(deployed):
        life.create()

    (new,) = deployed.active_runs()
    assert new != old
    assert deployed.run(old)["state"] == "CANCELLED"
    assert deployed.archives_of(new) != deployed.archives_of(old)
    tables.until(HOT, lambda at: at.lag == 0 and (at.rows or 0) > 2700)
    proven(deployed, HOT)
    tables.until_transformed(TOTALS)
    assert tables.rows(DIFFERENCES) == [(0,), (0,)]


def test_a_user_or_a_secret_that_was_made_again_works_and_rotates_on(life: Life) -> None:
    """The `create` of the upgrade made a dropped user and a deleted secret again, both after a rotation."""
    keys = Keys(life.deployed)
    before = {secret: keys.user(secret) for secret in (READER, LOADER)}
    assert {secret: keys.slots(user) for secret, user in before.items()} == {
        secret: [user.fingerprint] for secret, user in before.items()
    }

    for secret in before:
        life.rotate(f"--secret={secret.removeprefix('frazil/local/')}")

    for secret, old in before.items():
        new = keys.user(secret)
        assert keys.slots(new) == [old.fingerprint, new.fingerprint]
        with old.logged_in() as client:
            assert client.current_user() == new.name


# looked at


def test_no_secret_is_in_any_file_any_output_or_any_command_line(life: Life) -> None:
    assert len(life.secrets) >= 2 * (8 + 3), "not every account and user had a key, or the rotation no new one"
    canaries = life.secrets | {OF_THE_USER["AWS_SECRET_ACCESS_KEY"]}

    lines = {line for ended in life.ends for line in ended.command_lines}
    files = written_files(life.deployed)

    expected = {"jobs.tfstate", "cdk.tf.json", "terraform.log", "calls.jsonl", "stderr", "aws.log", "frazil.yaml"}
    assert expected <= {file.name for file in files}
    assert [line for line in lines if any(secret in line for secret in canaries)] == []
    assert files_with(canaries, files) == []


# taken away


def test_a_delete_that_keeps_the_data_keeps_what_is_needed_to_read_it(life: Life, tables: Tables) -> None:
    deployed = life.deployed
    rows = tables.status(HOT).rows

    variables = deployed.credentials()

    ended = life.alone("delete", *KICKSTARTERS, "--yes", "--keep-data")

    assert ended.status == 0, ended.said
    assert f"`unset {' '.join(variables)}`" in ended.stderr.splitlines()[-1]
    assert "left: 0" in ended.stderr
    assert "snowflake: gone" in ended.stderr
    kept = set(re.findall(r"^  (.*?)  +\S+$", ended.stderr.partition("kept, as asked")[2], re.MULTILINE))
    assert kept == {"Athena workgroup", "Glue database", "Glue table", "KMS key", "S3 bucket"}
    assert deployed.services_that_run() == ["aws", "broker", "registry"]
    assert tables.status(HOT).rows == rows


def test_each_role_may_do_what_its_calls_need_and_no_more(life: Life) -> None:
    """Recorded from the first `create` to the delete. Roles of readers and of Tableflow are taken by others alone."""
    needs = {role: life.needs(role) for role in ROLES}

    assert {role: refused(needs[role], life.granted[role]) for role in ROLES} == {role: set() for role in ROLES}
    never_needed = {each for role in ROLES for each in unused(life.granted[role], needs[role])}
    assert {each.action for each in never_needed} == set(NEVER_SEEN), sorted(map(str, never_needed))
    assert {each.statement for each in never_needed} <= {"Logs", "AllLogGroups"}


def test_the_printed_policy_allows_what_the_deployer_was_recorded_to_call(life: Life) -> None:
    stacks = read_stacks(life.deployed.environment / "cdktf.out")
    types = {kind for stack in stacks.values() for kind in stack.get("resource", {})}
    mine = [call for call in life.deployers if call["principal"] == "user"]

    assert len({call["operation"] for call in mine}) > 50
    assert not_allowed(mine, actions(types)) == set()


def test_the_proof_of_permissions_sees_what_lacks_and_what_is_too_much(life: Life) -> None:
    role = "frazil-local-job"
    granted, needs = life.granted[role], life.needs(role)
    fewer = [each for each in granted if each.statement != "KeyUnderSecrets"]
    elsewhere = Granted("Elsewhere", "s3:GetObject", "arn:aws:s3:::somebody-elses/*")

    assert {need.action for need in refused(needs, fewer)} == {"kms:Decrypt"}
    assert elsewhere in unused([*granted, elsewhere], needs)


def test_tables_that_were_kept_stay_beside_those_of_the_next_cluster(life: Life) -> None:
    deployed, glue = life.deployed, life.deployed.client("glue")
    (kept,) = glue.get_databases()["DatabaseList"]

    deployed.step("apply", "confluent", "lake")

    names = [database["Name"] for database in glue.get_databases()["DatabaseList"]]
    assert len(names) == 2
    assert kept["Name"] in names
    assert HOT in [table["Name"] for table in glue.get_tables(DatabaseName=kept["Name"])["TableList"]]


def test_a_delete_leaves_nothing(life: Life) -> None:
    deployed = life.deployed
    assert not (deployed.environment / "frazil.yaml").exists(), "the cluster and its secrets went before"
    deleting = deployed.begin("delete", "--yes")
    deleting.until(lambda: "left: " in deleting.errors.read_text())
    with deleting.stopped():
        found = look(boto3.Session("local", "local", region_name=REGION), NAMES)

    ended = deleting.end()
    deployed.end_provider()

    assert ended.status == 0, ended.said
    assert "left: 0" in ended.stderr
    assert {(thing.kind, thing.leaves_on is None) for thing in found} == {("KMS key", False)}
    assert deployed.services_that_run() == []
    eventually(deployed.processes, lambda left: left == [], most_seconds=LEASH_SECONDS)
    assert not (deployed.checkout / ".frazil/local/aws").exists()
