"""All stacks of one environment, wired: `python -m infra.app --environment NAME --out FOLDER` writes them.

    network ─────────────────────────────┐
    confluent ─► lake ─► secrets ────────┴─► jobs ─► exports
        │          │        └─► connectors
        └──────────┼──────────────┘
                   └───► snowflake

Without `kafka.confluent` the stacks confluent and connectors are absent; without packed artefacts the stack jobs is;
without `exports` or `snowflake` that of its name. Snowflake comes last: the tables that it attaches to must be there.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from frazil.model.errors import SettingError
from frazil.model.spec import TableSpec
from frazil.model.transforms import TransformSpec
from frazil.specs.load import load_tables
from frazil.specs.policies import missing_keys
from frazil.specs.settings_keys import TRANSFORMS_FOLDER
from infra.artefacts.artefact import NOTHING, Artefacts, read_manifest
from infra.cdk import App, Stack
from infra.components.kafka import Kafka, external
from infra.components.key_rotation import NOT_PACKED, Code
from infra.guards.aspect import synthesize
from infra.resources import aws
from infra.settings.file import load_environment
from infra.settings.model import ConfluentKafka, EnvironmentSettings
from infra.stacks.confluent import ConfluentStack
from infra.stacks.connectors import ConnectorsStack
from infra.stacks.exports import ExportsStack
from infra.stacks.jobs import JobsStack
from infra.stacks.lake import LakeStack
from infra.stacks.network import NetworkStack
from infra.stacks.secrets import SecretsStack
from infra.stacks.snowflake import AbandonedSnowflakeStack, SnowflakeStack
from infra.wanted.exports import OF_THE_ENVIRONMENT, WantedExport, have_links, wanted_exports
from infra.wanted.transforms import JobSpecs, wanted_transforms

TABLES = Path(__file__).parents[1] / "tables"
EXPORTS = Path(__file__).parents[1] / "exports"
Purpose = Literal["apply", "destroy", "abandon-snowflake"]
"""`abandon-snowflake` is only the stack of that name, without resources: an apply destroys what its state has."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """The specs of an environment."""

    tables: tuple[TableSpec, ...]
    transforms: tuple[TransformSpec, ...]
    exports: tuple[WantedExport, ...]


def build(
    settings: EnvironmentSettings,
    out: Path,
    artefacts: Artefacts | None,
    *,
    tables: Path = TABLES,
    exports: Path = EXPORTS,
    listed: Collection[str] | None = None,
    code: Code = NOT_PACKED,
    purpose: Purpose = "apply",
) -> tuple[str, ...]:
    """Write the stacks, and their names in the order in which they are applied.

    `listed` are the tables that are in Glue, where that is known: Snowflake attaches to no other. `code` is that of
    the function that rotates keys. Transformations are those of `transforms/` beside `tables`. Stacks that are
    destroyed ask no service for anything: it may be gone.
    Raises SettingError or SpecError where settings or specs are wrong, or where a stack breaks a rule.
    """
    app = App(outdir=str(out))
    if purpose == "abandon-snowflake":
        AbandonedSnowflakeStack(app, settings)
    else:
        specs = read_tables(tables)
        transforms = wanted_transforms(tables.with_name(TRANSFORMS_FOLDER), os.environ, specs)
        wanted = Wanted(specs, transforms, wanted_exports(settings, exports, os.environ))
        _all_stacks(app, settings, artefacts, wanted, listed=listed, code=code, purpose=purpose)
    if settings.permissions_boundary is not None:
        _bound_roles(app, settings.permissions_boundary)
    synthesize(app, production=settings.production)
    return tuple(node.node.id for node in app.node.children if isinstance(node, Stack))


def _all_stacks(
    app: App,
    settings: EnvironmentSettings,
    artefacts: Artefacts | None,
    wanted: Wanted,
    *,
    listed: Collection[str] | None,
    code: Code,
    purpose: Purpose,
) -> None:
    specs = wanted.tables
    if purpose == "apply":
        _check_policy_keys(settings, specs)
    network = NetworkStack(app, settings)
    confluent, kafka = _kafka(app, settings, wanted)
    lake = LakeStack(app, settings, kafka=kafka, links=have_links(wanted.exports))
    secrets = SecretsStack(app, settings, lake=lake, kafka=kafka, code=code)
    if confluent is not None and isinstance(settings.kafka, ConfluentKafka):
        ConnectorsStack(app, settings, kafka=settings.kafka, confluent=confluent, lake=lake, secrets=secrets)
    if artefacts is not None:
        jobs = JobsStack(
            app,
            settings,
            network=network,
            kafka=kafka,
            lake=lake,
            secrets=secrets,
            artefacts=artefacts,
            specs=JobSpecs(specs, wanted.transforms),
        )
        if wanted.exports:
            ExportsStack(
                app,
                settings,
                lake=lake,
                alarms_topic_arn=jobs.alarms_topic_arn,
                exports=wanted.exports,
                packed=artefacts.exports or NOTHING,
            )
    if settings.snowflake is not None:
        there = [spec for spec in specs if listed is None or spec.table in listed]
        user_keys = secrets.user_keys if purpose == "apply" else {}
        SnowflakeStack(app, settings, account=settings.snowflake, lake=lake, tables=there, user_keys=user_keys)


def _bound_roles(app: App, boundary: str) -> None:
    """Set the permissions boundary of every role in every stack."""
    for node in app.node.find_all():
        if isinstance(node, aws.IamRole):
            node.add_override("permissions_boundary", boundary)


def read_tables(folder: Path) -> tuple[TableSpec, ...]:
    """Read the table specs. Raises SettingError for a table in another database, which the job's role may not write."""
    specs = load_tables(folder, os.environ, database=OF_THE_ENVIRONMENT, catalog_type="glue")
    for spec in specs:
        if spec.database != OF_THE_ENVIRONMENT:
            what = (
                f"{spec.source_file}: database: in the cloud all tables are in the environment's, found {spec.database}"
            )
            raise SettingError(what, hint="remove the key; the environment's file says `lake: {database: …}`")
    return specs


def _check_policy_keys(settings: EnvironmentSettings, specs: Sequence[TableSpec]) -> None:
    """Raise SettingError if a table has policies and the settings lack a key that they need."""
    for name, why in missing_keys(specs):
        if name not in settings.policies:
            hint = f"store 32 random bytes in a secret and name it: `policies: {{{name}: {{id: …, secret: …}}}}`"
            raise SettingError(f"{settings.source_file}: policies.{name} is missing: {why}", hint=hint)


def _kafka(app: App, settings: EnvironmentSettings, wanted: Wanted) -> tuple[ConfluentStack | None, Kafka]:
    """Return the stack that creates the cluster, if any, and the cluster itself, created here or external."""
    if isinstance(settings.kafka, ConfluentKafka):
        made = ConfluentStack(app, settings, kafka=settings.kafka, tables=wanted.tables, transforms=wanted.transforms)
        return made, made.kafka
    return None, external(settings.kafka)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m infra.app", description="Writes the stacks of an environment.")
    parser.add_argument("--environment", required=True, help="a file of infra/environments/, by its name")
    parser.add_argument("--out", required=True, type=Path, help="where the stacks are written")
    parser.add_argument("--artefacts", type=Path, help="the manifest of what is packed, for the stack jobs")
    parser.add_argument("--rotate-keys", type=Path, help="the function that rotates keys, packed with its packages")
    given = parser.parse_args()
    artefacts = None if given.artefacts is None else read_manifest(given.artefacts)
    settings, code = load_environment(given.environment, os.environ), Code(given.rotate_keys)
    for name in build(settings, given.out, artefacts, code=code):
        print(name)


if __name__ == "__main__":
    main()
