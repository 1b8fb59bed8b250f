"""The exports that an environment runs: its settings with the specs in exports/."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from frazil.model.errors import SettingError
from frazil.model.exports import ExportSpec
from frazil.specs.load import load_exports
from frazil.specs.problems import suggest
from infra.settings.model import CloudExport, EnvironmentSettings

OF_THE_ENVIRONMENT = "of_the_environment"
"""Placeholder for the environment's database, whose name may be known to Terraform only."""
S3 = "s3://"
WITHOUT_CLOUDFRONT = ("cn-", "us-gov-")
"""The beginnings of the names of regions without CloudFront, and so without links."""


@dataclass(frozen=True, slots=True)
class WantedExport:
    """An export with its settings. `table` is its table in the environment's database."""

    spec: ExportSpec
    cloud: CloudExport

    @property
    def name(self) -> str:
        return self.spec.name

    @property
    def table(self) -> str:
        return self.spec.table.partition(".")[2]

    @property
    def time_zone(self) -> str:
        """The time zone of the schedule."""
        return self.cloud.time_zone or self.spec.time_zone


def wanted_exports(settings: EnvironmentSettings, folder: Path, env: Mapping[str, str]) -> tuple[WantedExport, ...]:
    """Return the exports of an environment. Raises SettingError for one without a spec or that cannot run there."""
    if not settings.exports:
        return ()
    specs = {spec.name: spec for spec in load_exports(folder, env, database=OF_THE_ENVIRONMENT)}
    return tuple(
        _wanted(_named(name, specs, folder, settings), cloud, settings) for name, cloud in settings.exports.items()
    )


def have_links(exports: tuple[WantedExport, ...]) -> bool:
    return any(export.spec.link_seconds is not None for export in exports)


def _named(name: str, specs: Mapping[str, ExportSpec], folder: Path, settings: EnvironmentSettings) -> ExportSpec:
    if name not in specs:
        raise SettingError(
            f"{settings.source_file}: exports.{name}: there is no spec {folder}/{name}.yaml",
            hint=suggest(name, specs) if specs else "write it (docs/exports.md), or remove the key",
        )
    return specs[name]


def _wanted(spec: ExportSpec, cloud: CloudExport, settings: EnvironmentSettings) -> WantedExport:
    for what, hint in _problems(spec, settings):
        raise SettingError(f"{spec.source_file}: {what}", hint=hint)
    return WantedExport(spec, cloud)


def _problems(spec: ExportSpec, settings: EnvironmentSettings) -> Iterator[tuple[str, str]]:
    if not spec.table.startswith(f"{OF_THE_ENVIRONMENT}."):
        what = f"table: in the cloud all tables are in the environment's database, found {spec.table}"
        yield what, "name the table without its database"
    if spec.to.startswith(S3):
        what = f"to: in the cloud the files go to exports/ in the environment's bucket, found {spec.to}"
        yield what, "write a folder, such as .frazil/exports, which is for `frazil export` on this machine"
    if spec.link_seconds is not None and settings.region.startswith(WITHOUT_CLOUDFRONT):
        yield f"link: CloudFront is not supported in the region {settings.region}", "remove link, or write none"
