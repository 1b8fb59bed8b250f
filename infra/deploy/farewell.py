"""The two ends of `delete`: what will go, shown before anything does; and what is gone, scheduled or left after."""

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
from infra.confluent_api import ConfluentCloud
from infra.deploy.deployment import Deployment
from infra.deploy.inventory import Inventory, Names, Thing, compare, in_confluent, in_snowflake, look
from infra.deploy.stacks import Stacks
from infra.deploy.terraform import Tell

KEPT = {"S3 bucket", "Glue database", "Glue table", "KMS key", "Athena workgroup"}
"""What `--keep-data` leaves: the data, what it is encrypted with, and how it is queried."""


class LeftBehindError(FrazilError):
    """After a `delete` something of the environment is still in the account, and nothing will remove it."""


class NotConfirmedError(Misuse):
    """`delete` was not told to go on; nothing was removed."""


@dataclass(frozen=True, slots=True)
class Before:
    """What was there when the delete began; a delete that is run again adds to it."""

    names: Names
    things: tuple[Thing, ...]


@dataclass(frozen=True, slots=True)
class Farewell:
    deployment: Deployment
    stacks: Stacks
    session: Any
    tell: Tell
    confluent: ConfluentCloud | None = None

    def confirm(self, *, keeps_data: bool) -> None:
        """Show what will go and ask. Raises NotConfirmedError where the answer is not the environment's name.

        Raises SettingError in production, before anything is gone.
        """
        refuse_in_production(self.deployment)
        before = self._remember()
        for thing in before.things:
            stays = keeps_data and self._is_kept(thing)
            self.tell(f"  {'stays' if stays else 'goes '}  {thing.kind:<28} {thing.name}")
        self.tell(f"{len(before.things)} things of the environment {self.deployment.environment} are in the account")
        if self.deployment.asks:
            self._ask()

    def take_stock(self, *, keeps_data: bool) -> None:
        """The three lists. Raises LeftBehindError where the last one is not empty."""
        before = _read(self._file)
        after = self._look(before.names)
        found = compare(before.things, after, keep=lambda thing: keeps_data and self._is_kept(thing))
        for line in stock_lines(found):
            self.tell(line)
        if found.left:
            raise LeftBehindError(
                f"{len(found.left)} things of the environment {self.deployment.environment} are left in the account",
                hint="run the delete again: it goes on; what stays after that was made by somebody else",
            )
        self._file.unlink()

    def _ask(self) -> None:
        name = self.deployment.environment
        if not sys.stdin.isatty():
            raise NotConfirmedError(
                "delete asks before it removes anything, and nobody is there to answer", hint="add --yes"
            )
        if input(f"Type {name} to delete it: ").strip() != name:
            raise NotConfirmedError(f"nothing was deleted: the answer was not {name}", hint="run it again to go on")

    def _remember(self) -> Before:
        earlier = _read(self._file).things if self._file.exists() else ()
        names = _read(self._file).names if self._file.exists() else self._names()
        before = Before(names, tuple(sorted({*earlier, *self._look(names)})))
        self._file.parent.mkdir(parents=True, exist_ok=True)
        self._file.write_text(json.dumps(dataclasses.asdict(before), default=str, indent=2))
        return before

    def _look(self, names: Names) -> list[Thing]:
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

    def _is_kept(self, thing: Thing) -> bool:
        return thing.kind in KEPT or (thing.kind == "IAM role" and "-reader-" in thing.name)

    @property
    def _file(self) -> Path:
        return self.deployment.folder / "before-delete.json"


def refuse_in_production(deployment: Deployment) -> None:
    """Terraform protects what holds data, but only when it comes to it: the bucket is emptied before."""
    if deployment.settings.production:
        raise SettingError(
            f"the environment {deployment.environment} is in production, where nothing is deleted",
            hint=f"set `production: false` in {deployment.settings.source_file}, then run the delete again",
        )


def stock_lines(found: Inventory) -> Sequence[str]:
    """For people: each list under its title, also when it is empty."""
    titles = {
        f"gone: {len(found.gone)}": found.gone,
        f"scheduled, AWS removes them by itself: {len(found.scheduled)}": found.scheduled,
        f"kept, as asked: {len(found.kept)}": found.kept,
        f"left: {len(found.left)}": found.left,
    }
    return [
        line
        for title, things in titles.items()
        if things or not title.startswith("kept")
        for line in (title, *(f"  {thing.kind:<28} {thing.name}{_when(thing)}" for thing in things))
    ]


def _when(thing: Thing) -> str:
    return "" if thing.leaves_on is None else f", on {thing.leaves_on:%Y-%m-%d}"


def _read(path: Path) -> Before:
    """Raises FileNotFoundError where no delete has begun."""
    written = json.loads(path.read_text())
    names = {**written["names"], "log_groups": tuple(written["names"]["log_groups"])}
    return Before(Names(**names), tuple(_thing(each) for each in written["things"]))


def _thing(written: Mapping[str, str | None]) -> Thing:
    leaves_on = written["leaves_on"]
    return Thing(str(written["kind"]), str(written["name"]), date.fromisoformat(leaves_on) if leaves_on else None)
