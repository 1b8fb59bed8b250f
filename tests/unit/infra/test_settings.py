from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from textwrap import dedent

import pytest

from frazil.model.errors import SettingError
from frazil.model.settings import GlueSource
from infra.reports.reference import FOLDER as REFERENCE
from infra.reports.reference import pages
from infra.settings.file import environments, load_environment
from infra.settings.model import (
    ConfluentKafka,
    Egress,
    EnvironmentSettings,
    ExistingVpc,
    ExistingWarehouse,
    ExternalKafka,
    ExternalRegistry,
    Flink,
    HcpState,
    LocalState,
    MadeVpc,
    MadeWarehouse,
    Network,
    PolicyKey,
    Rotation,
    S3State,
    Scheduled,
    Snowflake,
    Streamed,
    Topic,
    Worker,
)

Load = Callable[..., EnvironmentSettings]
CONFLUENT = "kafka: {confluent: {}}\n"
BASE = f"region: eu-west-1\n{CONFLUENT}"


@pytest.fixture
def load(tmp_path: Path) -> Load:
    def load_text(text: str, env: dict[str, str] | None = None, name: str = "test") -> EnvironmentSettings:
        (tmp_path / f"{name}.yaml").write_text(text)
        return replace(load_environment(name, env or {}, folder=tmp_path), source_file="")

    return load_text


def problems(load: Load, text: str, name: str = "test") -> list[str]:
    """What the error says, without the folder."""
    with pytest.raises(SettingError) as caught:
        load(text, name=name)
    lines = [re.sub(r"\S*/(?=\w+\.yaml)", "", line) for line in str(caught.value).splitlines()]
    return [line for line in lines if ".yaml:" in line or line.startswith("    ")]


def test_a_region_and_a_kafka_are_all_that_must_be_said(load: Load) -> None:
    settings = load(BASE)

    assert (settings.environment, settings.region, settings.production) == ("test", "eu-west-1", False)
    assert settings.backend == LocalState()
    assert settings.network == Network(None, Egress((443, 9092), ("0.0.0.0/0",)), None)
    assert settings.kafka == ConfluentKafka("eu-west-1", "SINGLE_ZONE", "ESSENTIALS", datagen=True, tableflow=())
    assert (settings.jobs.driver, settings.jobs.executor) == (Worker(2, 8, 20), Worker(4, 16, 20))
    assert settings.rotation == Rotation(30, 2)


@pytest.mark.parametrize(
    ("text", "backend"),
    [
        ("backend: local", LocalState()),
        ("backend: {s3: {bucket: states}}", S3State("states", "eu-west-1")),
        ("backend: {s3: {bucket: states, region: us-east-1}}", S3State("states", "us-east-1")),
        ("backend: {cloud: {organization: acme}}", HcpState("acme", None, "app.terraform.io")),
        (
            "backend: {cloud: {organization: acme, project: lake, hostname: tfe.acme.example}}",
            HcpState("acme", "lake", "tfe.acme.example"),
        ),
    ],
)
def test_the_state_lies_in_one_of_three_places(load: Load, text: str, backend: object) -> None:
    assert load(BASE + text) == replace(load(BASE), backend=backend)


@pytest.mark.parametrize(
    ("text", "vpc"),
    [
        ("none", None),
        ("{existing: {id: vpc-1, subnets: [subnet-1]}}", ExistingVpc("vpc-1", ("subnet-1",), ())),
        (
            "{existing: {id: vpc-1, subnets: [subnet-1], route_tables: [rtb-1]}}",
            ExistingVpc("vpc-1", ("subnet-1",), ("rtb-1",)),
        ),
        ("{made: {}}", MadeVpc("10.42.0.0/16", 2, "one")),
        (
            "{made: {cidr: 10.1.0.0/20, zones: 3, nat_gateways: one_per_zone}}",
            MadeVpc("10.1.0.0/20", 3, "one_per_zone"),
        ),
    ],
)
def test_the_network_is_none_or_there_or_made(load: Load, text: str, vpc: ExistingVpc | MadeVpc | None) -> None:
    assert load(f"{BASE}network: {{vpc: {text}}}").network.vpc == vpc


def test_another_kafka_is_described_in_librdkafkas_words_and_its_secrets_are_named(load: Load) -> None:
    text = """
        region: eu-west-1
        kafka:
          external:
            name: orders
            bootstrap.servers: b-1.msk.example:9096,b-2.msk.example:9096
            sasl.mechanism: SCRAM-SHA-512
            credentials: AmazonMSK_frazil
            registry: {url: https://registry.example/, credentials: registry}
    """

    assert load(text).kafka == ExternalKafka(
        name="orders",
        bootstrap_servers="b-1.msk.example:9096,b-2.msk.example:9096",
        protocol="sasl_ssl",
        mechanism="SCRAM-SHA-512",
        msk_iam=False,
        credentials="AmazonMSK_frazil",
        registry=ExternalRegistry("https://registry.example", "registry"),
    )


IN_GLUE = """
region: eu-west-1
kafka:
  external:
    bootstrap.servers: b-1.msk.example:9098
    aws_msk_iam: true
    registry: {REGISTRY}
"""


@pytest.mark.parametrize(
    ("text", "source"),
    [
        ("{glue: {}}", GlueSource("default-registry", "eu-west-1")),
        ("{glue: {registry_name: payments, region: us-east-1}}", GlueSource("payments", "us-east-1")),
    ],
)
def test_schemas_may_be_in_a_registry_of_glue(load: Load, text: str, source: GlueSource) -> None:
    kafka = load(IN_GLUE.replace("{REGISTRY}", text)).kafka

    assert isinstance(kafka, ExternalKafka)
    assert kafka.registry == source


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{glue: {}, credentials: acme}", "no effect, because the job reads AWS Glue with its role"),
        ("{glue: {}, url: 'https://r.example'}", "url or glue"),
        ("{credentials: acme}", "url or glue"),
    ],
)
def test_a_registry_is_in_glue_or_elsewhere(load: Load, text: str, problem: str) -> None:
    with pytest.raises(SettingError, match=problem):
        load(IN_GLUE.replace("{REGISTRY}", text))


def test_the_keys_of_masks_are_named_by_their_secrets(load: Load) -> None:
    keys = load(f"{BASE}policies: {{hash_key: {{id: '2026', secret: acme/masks}}}}").policies

    assert keys == {"hash_key": PolicyKey("2026", "acme/masks")}


def test_a_table_is_streamed_unless_it_has_a_schedule(load: Load) -> None:
    jobs = load(f"{BASE}jobs: {{tables: {{orders: rate(1 hour), clicks: streaming, bills: 'cron(0 6 * * ? *)'}}}}").jobs

    assert [jobs.trigger_of(table) for table in ("orders", "clicks", "bills", "others")] == [
        Scheduled("rate(1 hour)"),
        Streamed(),
        Scheduled("cron(0 6 * * ? *)"),
        Streamed(),
    ]


def test_memory_follows_the_processors_where_it_is_not_said(load: Load) -> None:
    jobs = load(f"{BASE}jobs: {{driver: {{cpu: 1}}, executor: {{cpu: 8, memory: 60GB, disk: 100GB}}}}").jobs

    assert (jobs.driver, jobs.executor) == (Worker(1, 4, 20), Worker(8, 60, 100))


def test_a_value_may_come_from_the_environment_of_the_process(load: Load) -> None:
    assert (
        load(f"{BASE}jobs: {{alarm_email: '${{env:EMAIL}}'}}", {"EMAIL": "a@b.example"}).jobs.alarm_email
        == "a@b.example"
    )


def test_all_problems_are_named_at_once_with_their_lines_and_the_likely_words(load: Load) -> None:
    text = (
        "regin: us-east-1\n"
        "kafka: {confluent: {availability: MULTI-ZONE, gouvernance_package: ESSENTIALS}}\n"
        "backend: s3\n"
        "log_retention: 31d\n"
        "tags: {aws:owner: me}\n"
        "network: {vpc: {made: {cidr: 10.42.0.1/16}}, egress: {ports: [9092, 99999]}}\n"
        "jobs: {tables: {orders: hourly}, release_label: emr-spark-8.2.0}\n"
    )

    assert problems(load, text) == [
        "test.yaml:1:1: regin: unknown key",
        "    did you mean region?",
        "test.yaml:2:35: kafka.confluent.availability: expected one of SINGLE_ZONE, MULTI_ZONE, LOW, HIGH, "
        'found "MULTI-ZONE"',
        "    did you mean MULTI_ZONE?",
        "test.yaml:2:47: kafka.confluent.gouvernance_package: unknown key",
        "    did you mean governance_package?",
        'test.yaml:3:10: backend: expected local or {s3: …} or {cloud: …}, found "s3"',
        "    write {s3: …}",
        'test.yaml:4:16: log_retention: expected whole days, found "31d"',
        "    CloudWatch supports only certain retention periods; the nearest is 30d",
        'test.yaml:5:8: tags: expected a tag, found "aws:owner"',
        "    use 1 to 128 letters of A to Z, digits, spaces and _.:/=+@-, not starting with aws:",
        'test.yaml:6:30: network.vpc.made.cidr: expected an IPv4 network, found "10.42.0.1/16"',
        "    write an IPv4 network without host bits: 10.42.0.0/16",
        'test.yaml:6:69: network.egress.ports[1]: expected a port, found "99999"',
        "    a port is a number from 1 to 65535",
        'test.yaml:7:25: jobs.tables.orders: expected streaming, or a schedule, found "hourly"',
        "    write streaming, rate(1 hour), or cron(0 6 * * ? *) with its six fields, a ? for one of both days",
        'test.yaml:7:49: jobs.release_label: expected one of emr-spark-8.1.0, emr-spark-8.0.0, found "emr-spark-8.2.0"',
        "    did you mean emr-spark-8.1.0?",
    ]


EXTERNAL = "region: eu-west-1\nkafka: {external: {bootstrap.servers: 'b:9092', registry: {url: 'http://r'}, %s}}\n"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (f"{BASE}tags: {{stack: mine}}", "tags: the tag stack is reserved for Frazil"),
        (f"{BASE}tags: {{Environment: prod}}", "the tag Environment is reserved for Frazil, which has environment"),
        (f"{BASE}tags: {{team: a, Team: b}}", "tags: team and Team are one tag to IAM, which ignores the case"),
        (f"{BASE}tags: {{{', '.join(f't{n}: x' for n in range(41))}}}", "expected at most 40 tags, found 41"),
        (f"{BASE}tags: {{unit: R&D}}", 'tags.unit: expected text, found "R&D"'),
        (f"{BASE}tags: {{größe: x}}", 'tags: expected a tag, found "größe"'),
        (f"{BASE}jobs: {{verify: 'cron(0 7 * * MON *)'}}", "jobs.verify: expected a schedule"),
        (f"{BASE}jobs: {{maintain: streaming}}", "jobs.maintain: expected a schedule"),
        (f"{BASE}jobs: {{time_zone: Berlin}}", "jobs.time_zone: expected a time zone"),
        (f"{BASE}jobs: {{tables: {{a: 'cron(0 7 ? * ? *)'}}}}", "jobs.tables.a: expected streaming, or a schedule"),
        (f"{BASE}tags: {{team: ''}}", 'tags.team: expected text, found ""'),
        (
            f"{BASE}network: {{privatelink: {{service: com.amazonaws.vpce.eu-west-1.vpce-svc-1}}}}",
            "network.privatelink: a Standard cluster of Confluent Cloud does not support",
        ),
        (f"{BASE}network: {{egress: {{ports: [1]}}}}", "network.egress: has no effect without a vpc"),
        (f"{BASE}network: {{vpc: {{made: {{cidr: 10.0.0.0/8}}}}}}", "made.cidr: expected a /16 to a /24, found a /8"),
        (f"{BASE}network: {{vpc: {{made: {{zones: 7}}}}}}", "network.vpc.made.zones: no region has more than 6 zones"),
        (
            f"{BASE}network: {{vpc: {{made: {{cidr: 10.0.0.0/24, zones: 3, nat_gateways: one_per_zone}}}}}}",
            "made.cidr: a /24 has no room for 3 NAT gateways beside the workers",
        ),
        (EXTERNAL % "", "kafka.external: sasl_ssl needs sasl.mechanism and credentials"),
        (EXTERNAL % "sasl.mechanism: PLAIN", "kafka.external: sasl_ssl needs sasl.mechanism and credentials"),
        (
            EXTERNAL % "security.protocol: ssl, credentials: x",
            "kafka.external.security.protocol: no effect of credentials, because security.protocol is ssl",
        ),
        (EXTERNAL % "security.protocol: ssl, name: artefacts", "the folder artefacts of the bucket is reserved"),
        (EXTERNAL % "aws_msk_iam: true, credentials: x", "aws_msk_iam: conflicts with the other keys"),
        (f"{BASE}jobs: {{driver: {{cpu: 8, memory: 18GB}}}}", "jobs.driver: EMR Serverless does not support 18GB"),
        (f"{BASE}jobs: {{executor: {{disk: 10GB}}}}", "jobs.executor: EMR Serverless does not support 10GB of disk"),
        (f"{BASE}jobs: {{executors: 5}}", "jobs: one job run needs cpu 22, more than 16"),
        (f"{BASE}lake: {{bucket: '${{secret:name}}'}}", "lake.bucket: a secret cannot be used here"),
        (f"{BASE}lake: {{bucket: My_Lake}}", 'lake.bucket: expected a bucket\'s name, found "My_Lake"'),
        (f"{BASE}snowflake: {{organization: acme, account: acme-lake}}", "snowflake.account: expected a name in Snow"),
        (f"{BASE}snowflake: {{organization: a, account: b, refresh_every: 5s}}", "snowflake.refresh_every: expected a"),
        (
            f"{BASE}snowflake: {{organization: a, account: b, stand_in: 'https://example.com'}}",
            "snowflake.stand_in: expected an address of this machine",
        ),
        (
            f"{BASE}snowflake: {{organization: a, account: b, warehouse: {{existing: WH, made: {{}}}}}}",
            "snowflake.warehouse: exactly one of existing or made must be given, found 2",
        ),
        (
            f"region: us-gov-west-1\n{CONFLUENT}snowflake: {{organization: a, account: b}}",
            "snowflake: Snowflake is not supported in the region us-gov-west-1",
        ),
        ("region: eu-west-1\nkafka: {}\n", "kafka: exactly one of confluent or external must be given, found 0"),
        (
            f"{BASE}network: {{vpc: {{made: {{}}, existing: {{id: x, subnets: [y]}}}}}}",
            "network.vpc: exactly one of existing or made must be given, found 2",
        ),
    ],
)  # fmt: skip
def test_what_contradicts_itself_or_cannot_be_is_refused_with_what_to_do(load: Load, text: str, problem: str) -> None:
    found = problems(load, text)

    assert problem in " ".join(found), found
    assert sum(line.startswith("    ") for line in found) in (0, len(found) / 2)


def test_a_password_in_the_file_is_refused_with_where_it_belongs(load: Load) -> None:
    with pytest.raises(SettingError) as caught:
        load(EXTERNAL % "sasl.mechanism: PLAIN, credentials: x, sasl.password: hunter2")

    assert "a password is not allowed in an environment's file" in caught.value.what
    assert "hunter2" not in str(caught.value)
    assert "put its name into `credentials`" in caught.value.hint


@pytest.mark.parametrize("name", ["My_Cloud", "dev-eu", "d"])
def test_a_name_that_cannot_be_part_of_others_is_refused(load: Load, name: str) -> None:
    """With a hyphen, the log groups of `dev-eu` would begin like those of `dev`, which `delete` removes."""
    (problem,) = problems(load, BASE, name=name)

    assert problem.endswith(f"{name}.yaml: {name} is not a valid environment name")


def test_an_environment_that_is_not_there_is_named_with_those_that_are(tmp_path: Path) -> None:
    (tmp_path / "production.yaml").write_text(BASE)

    with pytest.raises(SettingError) as caught:
        load_environment("produktion", {}, folder=tmp_path)

    assert caught.value.what == "unknown environment produktion"
    assert caught.value.hint.startswith("did you mean production?")


@pytest.mark.parametrize("name", environments())
def test_the_environments_that_are_here_are_sound(name: str) -> None:
    here = {"FRAZIL_LOCAL_AWS": "http://127.0.0.1:5000", "FRAZIL_LOCAL_SNOWFLAKE": "http://127.0.0.1:5001"}

    assert load_environment(name, here).environment == name


@pytest.mark.parametrize("name", sorted(pages()))
def test_the_reference_is_what_the_declarations_say(name: str) -> None:
    assert (REFERENCE / name).read_text(encoding="utf-8") == pages()[name], "run `python -m infra.reports.reference`"


def test_topics_have_sizes_and_subjects_of_references_may_be_beginnings(load: Load) -> None:
    kafka = load(
        "region: eu-west-1\n"
        "kafka: {confluent: {topics: {orders: {}, trades: {partitions: 12, retention: 1h}}, subjects: [common-*]}}\n"
    ).kafka

    assert kafka.topics == {"orders": Topic(6, timedelta(days=7)), "trades": Topic(12, timedelta(hours=1))}
    assert isinstance(kafka, ConfluentKafka)
    assert kafka.subjects == ("common-*",)


def test_tableflow_is_refused_where_lake_formation_would_refuse_its_role(load: Load) -> None:
    text = "region: eu-west-1\nlake: {lake_formation: true}\nkafka: {confluent: {tableflow: [stock_trades]}}\n"

    with pytest.raises(
        SettingError, match=r"test.yaml:3:.*: kafka.confluent.tableflow: Tableflow is not supported with"
    ):
        load(text)


def test_tableflow_needs_what_it_keeps_and_the_region_of_its_bucket(load: Load) -> None:
    text = "region: eu-west-1\nkafka: {confluent: {tableflow: [stock_trades], datagen: false, region: us-east-1}}\n"

    assert problems(load, text) == [
        "test.yaml:2:32: kafka.confluent.tableflow: Tableflow needs the topic stock_trades, but datagen is false",
        "    set datagen: true",
        "test.yaml:2:32: kafka.confluent.tableflow: Tableflow needs the bucket and the cluster in one region",
        "    remove `region`",
    ]


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("{}", None),
        ("{flink: {}}", Flink(5, statements=True)),
        ("{flink: {max_cfu: 20, statements: false}, datagen: false}", Flink(20, statements=False)),
    ],
)
def test_flink_is_off_unless_its_section_is_given(load: Load, written: str, expected: Flink | None) -> None:
    kafka = load(f"region: eu-west-1\nkafka: {{confluent: {written}}}\n").kafka

    assert isinstance(kafka, ConfluentKafka)
    assert kafka.flink == expected


def test_statements_of_flink_need_trades_and_make_their_topic(load: Load) -> None:
    topics = "topics: {stock_total_trades: {}}"
    text = f"region: eu-west-1\nkafka: {{confluent: {{flink: {{}}, datagen: false, {topics}}}}}\n"

    assert problems(load, text) == [
        "test.yaml:2:28: kafka.confluent.flink: Flink's statements need the topic stock_trades, but datagen is false",
        "    set datagen: true, or flink: {statements: false}",
        "test.yaml:2:56: kafka.confluent.topics: Flink's statements create the topic stock_total_trades, with its "
        "schema",
        "    remove it, or set flink: {statements: false}",
    ]


def test_without_its_section_there_is_no_snowflake_and_an_account_is_all_that_it_needs(load: Load) -> None:
    assert load(BASE).snowflake is None
    assert load(f"{BASE}snowflake: {{organization: acme, account: lake}}").snowflake == Snowflake(
        organization="ACME",
        account="LAKE",
        user="FRAZIL_DEPLOYER",
        role="FRAZIL_DEPLOYER",
        warehouse=MadeWarehouse("XSMALL", 60),
        database=None,
        schema="LAKE",
        refresh_seconds=30,
        reader_roles=(),
        allowed_cidrs=(),
    )


def test_snowflake_is_described_by_names_that_it_folds_to_upper_case(load: Load) -> None:
    text = """
        snowflake:
          organization: acme
          account: eu_lake
          user: terraform
          role: deployer
          warehouse: {existing: compute_wh}
          database: trades
          schema: public_tables
          refresh_every: 5m
          reader_roles: [analyst, Finance]
          allowed_cidrs: [203.0.113.0/24]
    """

    assert load(f"{BASE}{dedent(text)}").snowflake == Snowflake(
        organization="ACME",
        account="EU_LAKE",
        user="TERRAFORM",
        role="DEPLOYER",
        warehouse=ExistingWarehouse("COMPUTE_WH"),
        database="TRADES",
        schema="PUBLIC_TABLES",
        refresh_seconds=300,
        reader_roles=("ANALYST", "FINANCE"),
        allowed_cidrs=("203.0.113.0/24",),
    )


def test_a_made_warehouse_has_a_size_and_a_patience(load: Load) -> None:
    text = "snowflake: {organization: a, account: b, warehouse: {made: {size: SMALL, auto_suspend: 5m}}}"

    made = load(BASE + text).snowflake

    assert made is not None
    assert made.warehouse == MadeWarehouse("SMALL", 300)


@pytest.mark.parametrize(
    ("written", "usual"),
    [
        ("{}", Streamed()),
        ("{mode: scheduled}", Scheduled("rate(1 hour)")),
        ("{mode: scheduled, rate: rate(2 hours)}", Scheduled("rate(2 hours)")),
    ],
)
def test_a_mode_says_how_all_tables_are_written(load: Load, written: str, usual: Streamed | Scheduled) -> None:
    assert load(f"{BASE}jobs: {written}\n").jobs.usual == usual


@pytest.mark.parametrize(
    ("written", "what"),
    [
        ("{rate: rate(2 hours)}", "has no effect, because mode is streaming"),
        ("{mode: scheduled, rate: streaming}", "expected a schedule, found streaming"),
    ],
)
def test_a_rate_belongs_to_the_mode_scheduled(load: Load, written: str, what: str) -> None:
    assert any(what in line for line in problems(load, f"{BASE}jobs: {written}\n"))


def test_a_permissions_boundary_is_the_arn_of_a_policy(load: Load) -> None:
    assert load(BASE).permissions_boundary is None
    with pytest.raises(SettingError, match=r"iam.permissions_boundary: .*arn:aws:iam::1:role/x"):
        load(f"{BASE}iam: {{permissions_boundary: arn:aws:iam::1:role/x}}\n")
    with pytest.raises(SettingError, match=r"iam.permissions_boundary: .*policy/bôrder"):
        load(f"{BASE}iam: {{permissions_boundary: arn:aws:iam::123456789012:policy/bôrder}}\n")
