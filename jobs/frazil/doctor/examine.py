"""Run all checks, one part after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from frazil.adapters.iceberg.lake import IcebergLake
from frazil.adapters.network import time_at
from frazil.doctor.addresses import registry_address, tls_of_registry
from frazil.doctor.asking import SECONDS, Asking
from frazil.doctor.broker import ask_brokers
from frazil.doctor.catalog import ask_catalog
from frazil.doctor.clock import compare_clocks
from frazil.doctor.configuration import Loaded, load
from frazil.doctor.finding import Finding, Part, failed, not_asked, without
from frazil.doctor.identity import ask_identity
from frazil.doctor.machine import look_at_machine
from frazil.doctor.registry import ask_registry
from frazil.doctor.snowflake import ask_snowflake, reader_of
from frazil.doctor.tables import look_at_tables
from frazil.doctor.transforms import look_at_transforms
from frazil.doctor.warehouse import ask_warehouse
from frazil.model.errors import FrazilError
from frazil.model.settings import RegistrySettings, Settings
from frazil.model.snapshot import TableView
from frazil.specs.placeholders import LocalAddress, SecretSource, no_local_services

CONFIGURED: tuple[Part, ...] = ("identity", "broker", "registry", "clock", "warehouse", "catalog", "tables")
"""The parts that cannot be checked without a valid configuration."""


@dataclass(frozen=True, slots=True)
class ProcessEnvironment:
    """The environment of a process: the source of secrets, the clock and the source of ids."""

    env: Mapping[str, str]
    secrets: SecretSource
    now: Callable[[], datetime]
    new_id: Callable[[], str]
    seconds: float = SECONDS
    local: LocalAddress = no_local_services


def examine(config: Path, given: ProcessEnvironment) -> Iterator[Finding]:
    """Yield findings as checks complete. A failed check does not prevent the others."""
    loaded = load(config, given.env, given.secrets, Asking("configuration", given.seconds), local=given.local)
    yield from (without(finding, loaded.secrets) for finding in loaded.findings)
    yield from look_at_machine(given.env)
    if loaded.settings is None:
        yield from (not_asked(part, "everything", "the configuration cannot be read") for part in CONFIGURED)
        return
    for finding in _outside(loaded.settings, loaded, given):
        yield without(finding, loaded.secrets)


def _outside(settings: Settings, loaded: Loaded, given: ProcessEnvironment) -> Iterator[Finding]:
    def asking(part: Part) -> Asking:
        return Asking(part, given.seconds)

    yield from (
        identity := ask_identity(
            settings, given.env, asking("identity"), asked_secrets=loaded.asked_secrets, now=given.now
        )
    )
    yield from ask_brokers(settings.kafka, settings.tables, asking("broker"), settings.transforms)
    registry = list(ask_registry(settings.registry, settings.tables, asking("registry")))
    yield from registry
    if all(finding.part != "clock" for finding in identity):
        yield _clock_of_registry(settings.registry, given, reached=_answers(registry))
    yield from ask_warehouse(settings.catalog, asking("warehouse"), new_id=given.new_id())
    listed = ask_catalog(settings.catalog, settings.database, settings.tables, asking("catalog"))
    yield from listed.findings
    yield from look_at_tables(settings.tables, listed.views, now=given.now())
    if listed.views:
        yield from look_at_transforms(settings.transforms, IcebergLake(settings.catalog))
    yield from _snowflake(settings, loaded, listed.views, asking("snowflake"), now=given.now())


def _snowflake(
    settings: Settings, loaded: Loaded, views: Mapping[str, TableView], asking: Asking, *, now: datetime
) -> Iterator[Finding]:
    """Check Snowflake, if an account is configured."""
    specs = [spec for spec in settings.tables if "snowflake" in spec.readers]
    if settings.snowflake is None or not specs:
        return
    account, why = reader_of(settings.snowflake, loaded.why_unreadable)
    if account is None:
        yield not_asked("snowflake", "what it shows", why)
    else:
        yield from ask_snowflake(account, specs, views, asking, now=now)


def _answers(registry: Sequence[Finding]) -> bool:
    return registry[0].verdict == "ok" and not any(finding.is_silence for finding in registry)


def _clock_of_registry(registry: RegistrySettings | None, given: ProcessEnvironment, *, reached: bool) -> Finding:
    whose = "the registry"
    if registry is None:
        return not_asked("clock", f"against {whose}", "none is configured")
    if not reached:
        return not_asked("clock", f"against {whose}", "it does not answer")
    address, tls = registry_address(registry), tls_of_registry(registry)
    try:
        said = Asking("clock", given.seconds + 1).within(lambda: time_at(address, tls, seconds=given.seconds))
    except FrazilError as problem:
        return failed("clock", f"against {whose}", problem)
    if said is None:
        return not_asked("clock", f"against {whose}", "its answers have no date")
    return compare_clocks(whose, theirs=said, ours=given.now())
