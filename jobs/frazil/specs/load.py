"""Load Settings from files, environment and secrets, or raise one error that lists every problem."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from frazil.model.exports import ExportSpec
from frazil.model.settings import CatalogSettings, Settings
from frazil.model.spec import TableSpec
from frazil.model.transform_order import in_order
from frazil.model.transforms import TransformSpec
from frazil.specs import settings_keys
from frazil.specs.across import problems_across
from frazil.specs.catalog_keys import catalog_of, naming_of
from frazil.specs.cluster import cluster_problems, kafka_of, registry_of, wire_problems
from frazil.specs.document import MapNode, Mark, Node, UnreadableError, parse, scalars
from frazil.specs.export_keys import EXPORT_SECTION, export_of, export_problems
from frazil.specs.keys import Key, NoSecrets, Section, Values, default_of
from frazil.specs.placeholders import LocalAddress, PlaceholderSources, SecretSource, no_local_services, secrets_in
from frazil.specs.policies import missing_keys, with_keys
from frazil.specs.policy_keys import DEAD_LETTER_KEY, HASH_KEY
from frazil.specs.problems import Position, Problem, Problems
from frazil.specs.scalars import NAME, NO_PAGE
from frazil.specs.shapes import At, Rejected
from frazil.specs.snowflake_keys import snowflake_of, snowflake_problems
from frazil.specs.table_section import TABLE_SECTION
from frazil.specs.table_spec import ReadSpec, spec_problems, specs_of
from frazil.specs.transform_keys import TRANSFORM_SECTION, source_problems, transform_of, transform_problems

SPEC_ENDINGS = {".yaml", ".yml"}


def load_settings(
    path: Path, env: Mapping[str, str], secrets: SecretSource, *, local: LocalAddress = no_local_services
) -> Settings:
    """Read `frazil.yaml` and every table spec of its `tables` folder; `local` returns the values of `${local:…}`.

    Raises SettingError or SpecError, which list all problems of all files, or ServiceError if secrets cannot be read.
    """
    return _Loading(PlaceholderSources(env, secrets, local), Problems()).load(path)


def load_connections(
    path: Path, env: Mapping[str, str], secrets: SecretSource, *, local: LocalAddress = no_local_services
) -> Settings:
    """Read `frazil.yaml` as `load_settings` does, but accept that table specs are missing.

    The `tables` folder may be empty or missing, and may lack the spec of a table that transformations follow.
    """
    return _Loading(PlaceholderSources(env, secrets, local), Problems(), needs_specs=False).load(path)


def load_tables(folder: Path, env: Mapping[str, str], *, database: str, catalog_type: str) -> tuple[TableSpec, ...]:
    """Read only the table specs of a folder, as with a `frazil.yaml` that names this database and catalog.

    Raises SettingError or SpecError, which list all problems of all files.
    """
    loading = _Loading(PlaceholderSources(env, NoSecrets()), Problems())
    specs = loading.specs(folder, Position(str(folder)), database, catalog_type)
    loading.problems.raise_if_any()
    return specs


def load_exports(folder: Path, env: Mapping[str, str], *, database: str) -> tuple[ExportSpec, ...]:
    """Read only the export specs of a folder, none if it does not exist. Raises as `load_tables` does."""
    loading = _Loading(PlaceholderSources(env, NoSecrets()), Problems())
    specs = loading.exports(folder, folder.parent, database)
    loading.problems.raise_if_any()
    return specs


def load_transforms(
    folder: Path, env: Mapping[str, str], *, database: str, tables: Sequence[TableSpec]
) -> tuple[TransformSpec, ...]:
    """Read only the transformations of a folder, none if it does not exist. Raises as `load_tables` does."""
    loading = _Loading(PlaceholderSources(env, NoSecrets()), Problems())
    specs = loading.transforms(folder, folder.parent, database, tables)
    loading.problems.raise_if_any()
    return specs


@dataclass(frozen=True, slots=True)
class _Loading:
    sources: PlaceholderSources
    problems: Problems
    needs_specs: bool = True

    def load(self, path: Path) -> Settings:
        root, at = self._open(path)
        if _is_empty(root):
            self.problems.raise_if_any()
        values = self._read(settings_keys.SETTINGS, root, at)
        database = self._early(settings_keys.DATABASE, root, at)
        catalog = self._catalog(values, at)
        folder = at.folder / self._early(settings_keys.TABLES, root, at)
        place = _place_of(settings_keys.TABLES.name, root, at)
        specs = self.specs(folder, place, database, "" if catalog is None else naming_of(catalog))
        specs = self._with_keys(values, specs, root, at)
        exports = self._exports(at, root, database, specs)
        transforms = self._transforms(at, root, database, specs)
        self._check_registry(values, specs, root, at)
        self.problems.raise_if_any()
        assert values is not None and catalog is not None, "a missing value is a problem"  # noqa: S101
        snowflake = values.get(settings_keys.SNOWFLAKE_KEY)
        return Settings(
            source_file=str(path),
            kafka=kafka_of(values[settings_keys.KAFKA_KEY]),
            registry=registry_of(values.get(settings_keys.REGISTRY_KEY)),
            catalog=catalog,
            database=values[settings_keys.DATABASE],
            tables=specs,
            tables_folder=str(folder),
            exports=exports,
            transforms=transforms,
            snowflake=None if snowflake is None else snowflake_of(snowflake),
            status_page=None if values[settings_keys.PAGE_KEY] == NO_PAGE else values[settings_keys.PAGE_KEY],
            secrets=tuple(sorted({name for each in scalars(root) for name in secrets_in(each.text)})),
        )

    def _open(self, path: Path) -> tuple[Node, At]:
        at = At(str(path), path.parent, self.sources, self.problems)
        return read_document(
            path, at, missing="run this in the folder of frazil.yaml, or name the file: --config FILE"
        ), at

    def _read(self, section: Section, root: Node, at: At) -> Values | None:
        try:
            return section.read(root, at)
        except Rejected:
            return None

    def _early(self, key: Key[str], root: Node, at: At) -> str:
        """Read one key even if others are invalid, so that problems in table specs are also found."""
        quiet = At(at.file, at.folder, self.sources, Problems())
        given = {name.text: value for name, value in root.entries} if isinstance(root, MapNode) else {}
        try:
            return key.shape.read(given[key.name], quiet) if key.name in given else default_of(key, quiet)
        except Rejected:
            return default_of(key, quiet)

    def _catalog(self, values: Values | None, at: At) -> CatalogSettings | None:
        if values is None:
            return None
        catalog, snowflake = values[settings_keys.CATALOG_KEY], values.get(settings_keys.SNOWFLAKE_KEY)
        kafka, registry = values[settings_keys.KAFKA_KEY], values.get(settings_keys.REGISTRY_KEY)
        for problem in cluster_problems(kafka, registry, catalog):
            self.problems.add(problem)
        for problem in () if snowflake is None else snowflake_problems(snowflake):
            self.problems.add(problem)
        return catalog_of(catalog, at.folder)

    def _check_registry(self, values: Values | None, specs: Sequence[TableSpec], root: Node, at: At) -> None:
        """Note a problem if a table needs a registry and none is given."""
        first = next((spec for spec in specs if spec.needs_registry), None)
        if values is None or first is None:
            return
        registry = registry_of(values.get(settings_keys.REGISTRY_KEY))
        if registry is not None:
            for problem in wire_problems(registry, specs, values.place_of(settings_keys.REGISTRY_KEY)):
                self.problems.add(problem)
            return
        at.under(settings_keys.REGISTRY_KEY.name).reject(
            root.mark,
            f"required key is missing: {first.identifier} has value: {first.value} and key: {first.key}",
            hint="add `schema_registry: {url: …}`; tables of values without registered schemas have another `value`",
        )

    def _with_keys(
        self, values: Values | None, specs: Sequence[TableSpec], root: Node, at: At
    ) -> tuple[TableSpec, ...]:
        """Give the keys of policies to the specs, and note a problem for each that is missing."""
        if values is None:
            return tuple(specs)
        given = values.get(settings_keys.POLICIES_KEY)
        hash_key = None if given is None else given.get(HASH_KEY)
        with_theirs = with_keys(specs, hash_key, None if given is None else given.get(DEAD_LETTER_KEY))
        for name, why in missing_keys(with_theirs):
            hint = (
                f"add `{name}: {{id: …, file: …}}` below `policies:` (docs/policies.md, Keys, shows how to make a key)"
            )
            here = at.under(settings_keys.POLICIES_KEY.name).under(name)
            here.reject(root.mark, f"required key is missing: {why}", hint=hint)
        return with_theirs

    def specs(self, folder: Path, place: Position, database: str, catalog_type: str) -> tuple[TableSpec, ...]:
        """Read the table specs of a folder; `place` is the position that names the folder."""
        files = self._files(folder, place)
        read = [spec for file in files for spec in self._spec(file, database, catalog_type)]
        for problem in problems_across(read):
            self.problems.add(problem)
        return tuple(each.spec for each in read)

    def exports(self, folder: Path, root: Path, database: str) -> tuple[ExportSpec, ...]:
        """Read the export specs of a folder; `root` is that to which they are relative."""
        return self._exports_of(self._specs_in(folder, EXPORT_SECTION, root, of="an export"), database, ())

    def _exports(self, at: At, root: Node, database: str, tables: Sequence[TableSpec]) -> tuple[ExportSpec, ...]:
        """Read the export specs. Their folders are relative to that of `frazil.yaml`."""
        named = self._named_specs(settings_keys.EXPORTS, EXPORT_SECTION, at, root, of="an export")
        return self._exports_of(named, database, tables)

    def _exports_of(
        self, named: Iterable[tuple[Path, Values]], database: str, tables: Sequence[TableSpec]
    ) -> tuple[ExportSpec, ...]:
        found = []
        for file, values in named:
            made = export_of(values, str(file), database)
            for problem in export_problems(values, made, tables):
                self.problems.add(problem)
            found.append(made)
        return tuple(found)

    def transforms(
        self, folder: Path, root: Path, database: str, tables: Sequence[TableSpec]
    ) -> tuple[TransformSpec, ...]:
        """Read the transformations of a folder; `root` is that in which modules are looked for."""
        named = self._specs_in(folder, TRANSFORM_SECTION, root, of="a transformation")
        return self._transforms_of(named, root, database, tables)

    def _transforms(self, at: At, root: Node, database: str, tables: Sequence[TableSpec]) -> tuple[TransformSpec, ...]:
        named = self._named_specs(settings_keys.TRANSFORMS, TRANSFORM_SECTION, at, root, of="a transformation")
        return self._transforms_of(named, at.folder, database, tables)

    def _transforms_of(
        self, named: Iterable[tuple[Path, Values]], root: Path, database: str, tables: Sequence[TableSpec]
    ) -> tuple[TransformSpec, ...]:
        tables_are_complete = self.needs_specs and not self.problems.found
        read = [*named]
        folder = str(root.absolute())
        made = [transform_of(each, str(file), tables, database=database, folder=folder) for file, each in read]
        for number, (_, values) in enumerate(read):
            for problem in transform_problems(values, number, made, tables):
                self.problems.add(problem)
            for problem in source_problems(values, number, made, tables) if tables_are_complete else ():
                self.problems.add(problem)
        return tuple(made) if self.problems.found else in_order(made)

    def _named_specs(
        self, key: Key[str], section: Section, at: At, root: Node, *, of: str
    ) -> Iterator[tuple[Path, Values]]:
        """Read the specs of a folder. It may be missing, unless `frazil.yaml` names it."""
        folder = at.folder / self._early(key, root, at)
        place = _place_of(key.name, root, at)
        if not folder.is_dir():
            if place.line:
                hint = f"run `mkdir {folder}`, or remove the key"
                self.problems.add(Problem(place, f"the folder {folder} does not exist", hint))
            return
        yield from self._specs_in(folder, section, at.folder, of=of)

    def _specs_in(self, folder: Path, section: Section, root: Path, *, of: str) -> Iterator[tuple[Path, Values]]:
        for file in _yaml_files(folder) if folder.is_dir() else []:
            values = self._named_spec(file, section, root, of=of)
            if values is not None:
                yield file, values

    def _named_spec(self, file: Path, section: Section, folder: Path, *, of: str) -> Values | None:
        """Read a spec whose file has its name."""
        at = At(str(file), folder, self.sources, self.problems)
        if not NAME.fullmatch(file.stem):
            hint = f"use only letters, digits and _, with a letter or _ first: the name of {of} is that of its file"
            at.reject(Mark(0, 0), f'"{file.stem}" cannot be the name of {of}', hint=hint)
        if any(other.exists() and other != file for other in map(file.with_suffix, SPEC_ENDINGS)):
            at.reject(Mark(0, 0), f"another file has the name {file.stem}, too", hint="rename one of them")
        root = read_document(file, at, missing=f"run `ls -l {file}`")
        return self._read(section, root, at)

    def _files(self, folder: Path, place: Position) -> list[Path]:
        if not folder.is_dir() and not self.needs_specs:
            return []
        if not folder.is_dir():
            self.problems.add(
                Problem(place, f"the folder {folder} does not exist", f"run `mkdir {folder}`, or correct the name")
            )
            return []
        files = _yaml_files(folder)
        if not files and self.needs_specs:
            hint = f"write {folder / 'orders.yaml'} with one line: `topic: orders`"
            self.problems.add(Problem(place, f"no table spec in {folder}", hint))
        return files

    def _spec(self, file: Path, database: str, catalog_type: str) -> Iterator[ReadSpec]:
        before = len(self.problems.found)
        root, at = self._open(file)
        is_readable = len(self.problems.found) == before or not _is_empty(root)
        values = self._read(TABLE_SECTION, root, at) if is_readable else None
        if values is None:
            return
        for problem in spec_problems(values, catalog_type=catalog_type):
            self.problems.add(problem)
        yield from specs_of(values, str(file), database)


def read_document(path: Path, at: At, *, missing: str) -> Node:
    """Parse a file. If it cannot be read, note a problem (with the hint `missing`) and return an empty mapping.

    If it is only indented with tabs, the mapping that it would be with spaces is returned.
    """
    try:
        return parse(path.read_bytes().decode("utf-8-sig"))
    except UnreadableError as error:
        at.reject(error.mark, f"{error.problem}", hint=error.hint)
        if error.instead is not None:
            return error.instead
    except UnicodeDecodeError as error:
        at.reject(Mark(0, 0), f"not valid UTF-8 at byte {error.start}", hint="save it as UTF-8")
    except FileNotFoundError:
        at.reject(Mark(0, 0), "file not found", hint=missing)
    except OSError as error:
        at.reject(Mark(0, 0), f"could not read the file: {error.strerror}", hint=f"run `ls -l {path}`")
    return MapNode((), Mark(1, 1))


def _yaml_files(folder: Path) -> list[Path]:
    return [file for file in sorted(folder.iterdir()) if file.suffix in SPEC_ENDINGS and file.name[0] != "."]


def _is_empty(root: Node) -> bool:
    return isinstance(root, MapNode) and not root.entries


def _place_of(name: str, root: Node, at: At) -> Position:
    entries = root.entries if isinstance(root, MapNode) else ()
    marks = [value.mark for key, value in entries if key.text == name]
    return at.under(name).place(marks[-1] if marks else Mark(0, 0))
