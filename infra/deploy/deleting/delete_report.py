"""The start and end of `delete`: list what will be deleted and ask, then report what was deleted and what remains."""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

from frazil.model.errors import FrazilError, Misuse, SettingError
from infra.deploy.deleting.inventory import Inventory, Names, Resource, compare, in_confluent, in_snowflake, look
from infra.deploy.deployment import Deployment
from infra.deploy.stacks.deployed import Stacks
from infra.terraform.runner import Tell
from shared.confluent_api import ConfluentCloud

KEPT = {"S3 bucket", "Glue database", "Glue table", "KMS key", "Athena workgroup"}
"""What `--keep-data` keeps: the data, its encryption key, and the workgroup that queries it."""


class LeftBehindError(FrazilError):
    """Resources of the environment remain in the account after a `delete`."""


class NotConfirmedError(Misuse):
    """A deletion was not confirmed; nothing was deleted."""


@dataclass(frozen=True, slots=True)
class Before:
    """The resources found when the delete began; a repeated delete adds to them."""

    names: Names
    resources: tuple[Resource, ...]


@dataclass(frozen=True, slots=True)
class DeleteReport:
    """The confirmation and the final report of a `delete`. `session` is a boto3 session."""

    deployment: Deployment
    stacks: Stacks
    session: Any
    tell: Tell
    confluent: ConfluentCloud | None = None

    def confirm(self, *, keeps_data: bool) -> None:
        """List the resources that will be deleted and ask for confirmation.

        Raises NotConfirmedError if the answer is not the environment's name, SettingError in production.
        """
        refuse_in_production(self.deployment)
        before = self._remember()
        for resource in before.resources:
            stays = keeps_data and self._is_kept(resource)
            self.tell(f"  {'stays' if stays else 'goes '}  {resource.kind:<28} {resource.name}")
        self.tell(
            f"{_resources(len(before.resources))} of the environment {self.deployment.environment} in the account"
        )
        ask_for_name(self.deployment, "delete", purpose="delete it")

    def print_result(self, *, keeps_data: bool) -> None:
        """Print what was deleted, scheduled and left. Raises LeftBehindError if anything is left."""
        before = _read(self._file)
        after = self._look(before.names)
        found = compare(before.resources, after, keep=lambda resource: keeps_data and self._is_kept(resource))
        for line in result_lines(found):
            self.tell(line)
        if found.left:
            raise LeftBehindError(
                f"{_resources(len(found.left))} of the environment {self.deployment.environment} left in the account",
                hint="rerun the delete: it resumes. Frazil did not create what still remains after that",
            )
        self._file.unlink()

    def _remember(self) -> Before:
        earlier = _read(self._file).resources if self._file.exists() else ()
        names = _read(self._file).names if self._file.exists() else self._names()
        before = Before(names, tuple(sorted({*earlier, *self._look(names)})))
        self._file.parent.mkdir(parents=True, exist_ok=True)
        self._file.write_text(json.dumps(dataclasses.asdict(before), default=str, indent=2))
        return before

    def _look(self, names: Names) -> list[Resource]:
        confluent = () if self.confluent is None else in_confluent(self.confluent, names.prefix)
        return [*look(self.session, names), *confluent, *in_snowflake(self.stacks.named("snowflake"))]

    def _names(self) -> Names:
        lake: Mapping[str, Any] = self.stacks.outputs("lake")
        return Names(
            prefix=self.deployment.prefix,
            bucket=lake.get("bucket_name", ""),
            database=lake.get("database_name", ""),
            secret_prefix=self.deployment.secret_prefix,
            log_groups=self.deployment.log_groups,
            cluster=self.stacks.outputs("confluent").get("cluster_id", ""),
        )

    def _is_kept(self, resource: Resource) -> bool:
        return resource.kind in KEPT or (resource.kind == "IAM role" and "-reader-" in resource.name)

    @property
    def _file(self) -> Path:
        return self.deployment.folder / "before-delete.json"


def ask_for_name(deployment: Deployment, command: str, *, purpose: str) -> None:
    """Ask for the environment's name, unless the command has --yes. Raises NotConfirmedError for another answer."""
    name = deployment.environment
    if not deployment.asks:
        return
    if not sys.stdin.isatty():
        raise NotConfirmedError(
            f"{command} needs a confirmation, but stdin is not a terminal",
            hint=f"add --yes to run {command} without asking",
        )
    if input(f"Type {name} to {purpose}: ").strip() != name:
        raise NotConfirmedError(
            f"nothing was deleted: the answer was not {name}", hint=f"rerun the command and type {name}"
        )


def refuse_in_production(deployment: Deployment) -> None:
    """Raise SettingError if the environment is in production.

    Terraform's own protection comes too late, because the bucket is emptied first.
    """
    if deployment.settings.production:
        raise SettingError(
            f"the environment {deployment.environment} is in production and cannot be deleted",
            hint=f"set `production: false` in {deployment.settings.source_file}, then rerun the delete",
        )


def result_lines(found: Inventory) -> Sequence[str]:
    """Return the lines of the final report: each list under its title, even if empty."""
    titles = {
        f"gone: {len(found.gone)}": found.gone,
        f"scheduled for deletion by AWS: {len(found.scheduled)}": found.scheduled,
        f"kept, as asked: {len(found.kept)}": found.kept,
        f"left: {len(found.left)}": found.left,
    }
    return [
        line
        for title, resources in titles.items()
        if resources or not title.startswith("kept")
        for line in (title, *(f"  {resource.kind:<28} {resource.name}{_when(resource)}" for resource in resources))
    ]


def _resources(count: int) -> str:
    return f"{count} resource{'' if count == 1 else 's'}"


def _when(resource: Resource) -> str:
    return "" if resource.leaves_on is None else f", on {resource.leaves_on:%Y-%m-%d}"


def _read(path: Path) -> Before:
    """Return the recorded resources. Raises FileNotFoundError if no delete has begun."""
    written = json.loads(path.read_text())
    names = {**written["names"], "log_groups": tuple(written["names"]["log_groups"])}
    return Before(Names(**names), tuple(_resource(each) for each in written["resources"]))


def _resource(written: Mapping[str, str | None]) -> Resource:
    leaves_on = written["leaves_on"]
    return Resource(str(written["kind"]), str(written["name"]), date.fromisoformat(leaves_on) if leaves_on else None)
