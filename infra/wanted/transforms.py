"""The transformations that the job runs after the tables that they follow."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from frazil.model.errors import SettingError
from frazil.model.spec import TableSpec
from frazil.model.transforms import TransformSpec
from frazil.specs.load import load_transforms
from infra.wanted.exports import OF_THE_ENVIRONMENT


@dataclass(frozen=True, slots=True)
class JobSpecs:
    """What the job runs: tables, and the transformations that follow them."""

    tables: tuple[TableSpec, ...]
    transforms: tuple[TransformSpec, ...]


def wanted_transforms(folder: Path, env: Mapping[str, str], tables: Sequence[TableSpec]) -> tuple[TransformSpec, ...]:
    """Read the transformations of a folder. Raises SettingError for one that cannot run in the cloud."""
    specs = load_transforms(folder, env, database=OF_THE_ENVIRONMENT, tables=tables)
    for spec in specs:
        for what, hint in _problems(spec, folder):
            raise SettingError(f"{spec.source_file}: {what}", hint=hint)
    return specs


def _problems(spec: TransformSpec, folder: Path) -> Iterator[tuple[str, str]]:
    elsewhere = [name for name in (spec.identifier, *spec.tables) if not name.startswith(f"{OF_THE_ENVIRONMENT}.")]
    if elsewhere:
        yield (
            f"in the cloud all tables are in the environment's database, found {elsewhere[0]}",
            "name tables without a database; the environment's file says `lake: {database: …}`",
        )
    module = spec.function.partition(":")[0]
    package = module.partition(".")[0]
    if module and package != folder.name:
        yield (
            f"python: the job has the modules of {folder.name}/ only, found {module}",
            f"move it to {folder.name}/, and write {folder.name}.{module.rpartition('.')[2]}:…",
        )
    file = folder.parent.joinpath(*module.split("."))
    if module and not (file.with_suffix(".py").is_file() or (file / "__init__.py").is_file()):
        yield f"python: there is no module {module}", f"write {file.with_suffix('.py')}, or correct the name"
