"""What the one deployment of test_deployed.py has gone through, and its tables as `frazil status` sees them."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from deployed import CLOUD_KEY, REGION, Deployed, Ended, Running
from permission_proof import Account, Granted, Needed, granted_to, needed_by
from waiting import eventually

from frazil.adapters.delta.log import DeltaRsLogs
from frazil.adapters.iceberg.lake import IcebergLake
from frazil.adapters.kafka.topics import KafkaTopics
from frazil.model.settings import Settings
from frazil.query import ask
from frazil.specs.select import select_tables
from frazil.status import TableStatus, table_statuses
from frazil.transforms.unread import owned_by, unread

LOOK_ANYWAY_SECONDS = 10
ROLES = (
    "frazil-local-job",
    "frazil-local-streaming-job",
    "frazil-local-schedules",
    "frazil-local-rotate-keys",
)


@dataclass
class Life:
    """What the deployment has gone through so far."""

    deployed: Deployed
    ends: list[Ended] = field(default_factory=list)
    secrets: set[str] = field(default_factory=lambda: {CLOUD_KEY["CONFLUENT_CLOUD_API_SECRET"]})
    granted: dict[str, list[Granted]] = field(default_factory=dict)
    account: Account | None = None
    deployers: list[dict[str, Any]] = field(default_factory=list)
    """Recorded calls while nothing but deploy.sh ran."""

    def alone(self, verb: str, *options: str) -> Ended:
        """Run deploy.sh while nothing else calls AWS with the same credentials, and remember its calls."""
        before = len(self.deployed.calls())
        ended = self.deployed.deploy(verb, *options)
        self.deployers += self.deployed.calls()[before:]
        self.ends.append(ended)
        return ended

    def create(self, end: Callable[[], Ended] | None = None) -> Ended:
        ended = end() if end else self.deployed.deploy("create")
        self.ends.append(ended)
        assert ended.status == 0, ended.said[-4000:]
        self.deployers = self.deployers or self.deployed.calls()
        self._remember()
        return ended

    def rotate(self, *options: str) -> None:
        self._rotated(self.alone("rotate", *options))

    def end_rotation(self, rotation: Running) -> Ended:
        ended = rotation.end()
        self.ends.append(ended)
        self._rotated(ended)
        return ended

    def _rotated(self, ended: Ended) -> None:
        assert ended.status == 0, ended.said[-4000:]
        self._remember()

    def _remember(self) -> None:
        """Secrets and roles are gone when files are searched for them, and calls are judged."""
        iam, vault = self.deployed.client("iam"), self.deployed.client("secretsmanager")
        listed = {secret["Name"]: secret["ARN"] for secret in vault.list_secrets(MaxResults=100)["SecretList"]}
        self.secrets |= {material for name in listed for material in self._material(vault, name)}
        self.granted = {role: granted_to(iam, role) for role in ROLES}
        key = self.deployed.client("kms").describe_key(KeyId="alias/frazil-local-lake")["KeyMetadata"]
        self.account = Account(key["AWSAccountId"], REGION, key["Arn"], listed)

    def _material(self, vault: Any, secret: str) -> Iterator[str]:
        """Of every version that there is: API secrets, and a line from the middle of each private key."""
        versions = vault.list_secret_version_ids(SecretId=secret, IncludeDeprecated=True)["Versions"]
        for version in versions:
            value = vault.get_secret_value(SecretId=secret, VersionId=version["VersionId"])["SecretString"]
            if value.startswith("-----BEGIN"):  # the key that signs links
                yield value.splitlines()[5]
                continue
            for field_name, text in json.loads(value).items():
                if field_name.endswith("_secret"):
                    yield text
                elif field_name == "private_key":
                    yield text.splitlines()[5]

    def needs(self, role: str) -> set[Needed]:
        """What IAM would have asked for all that the role was recorded to call."""
        assert self.account is not None, "nothing was created"
        mine = [call for call in self.deployed.calls() if call["principal"].endswith(f":role/{role}")]
        assert mine, f"{role} was never used"
        needs = {need for call in mine for need in needed_by(call, self.account)}
        return {replace(need, resource=self.account.now(need.resource)) for need in needs}


@dataclass(frozen=True)
class Tables:
    """The tables as `frazil status` sees them, without a process for each look."""

    deployed: Deployed
    settings: Settings

    def status(self, table: str) -> TableStatus:
        lake, topics = IcebergLake(self.settings.catalog), KafkaTopics(self.settings.kafka)
        specs, logs = select_tables(self.settings, [table]), DeltaRsLogs(lake.storage)
        (found,) = table_statuses(lake, topics, specs, delta_logs=lambda: logs, now=datetime.now(UTC))
        return found

    def until(self, table: str, is_so: Callable[[TableStatus], bool]) -> TableStatus:
        """Look at the whole table after each of its commits, and now and then for what else may have changed."""
        seen: dict[object, TableStatus] = {}

        def look() -> TableStatus:
            at = (self._metadata_of(table), time.monotonic() // LOOK_ANYWAY_SECONDS)
            if at not in seen:
                seen[at] = self.status(table)
            return seen[at]

        found: TableStatus = eventually(look, is_so, explain=self.deployed.last_words)
        return found

    def _metadata_of(self, table: str) -> str | None:
        """The address of a table's newest metadata file, or None before the table is there."""
        (spec,) = select_tables(self.settings, [table])
        database, _, name = spec.identifier.partition(".")
        glue = self.deployed.client("glue")
        try:
            listed = glue.get_table(DatabaseName=database, Name=name)["Table"]
        except glue.exceptions.EntityNotFoundException:
            return None
        return str(listed["Parameters"]["metadata_location"])

    def until_transformed(self, name: str) -> None:
        """Wait until a transformation has read all that its table has."""
        spec = next(each for each in self.settings.transforms if each.name == name)
        lake = IcebergLake(self.settings.catalog)

        def is_up_to_date() -> bool:
            source, target = lake.load(spec.source), lake.load(spec.identifier)
            state = None if target is None else owned_by(target, spec)
            return (
                source is not None
                and state is not None
                and unread(source, spec, state.position).position == state.position
            )

        eventually(is_up_to_date, bool, explain=self.deployed.last_words)

    def rows(self, sql: str) -> list[tuple[object, ...]]:
        with ask(self.settings, sql) as found:
            return list(found.rows())

    def until_all_of_it(self, table: str, *, rows: int, dead_letters: int = 0) -> None:
        self.until(table, lambda at: (at.lag, at.rows, at.counts.dead_letters) == (0, rows, dead_letters))


def proven(deployed: Deployed, *tables: str) -> None:
    """Nothing missing, nothing double, record by record."""
    verified = json.loads(deployed.frazil("verify", *tables, "--against-kafka", "--json"))
    assert [each["clean"] for each in verified] == [True] * len(verified), verified
    assert "kafka" in [check["name"] for each in verified for check in each["checks"]], verified
