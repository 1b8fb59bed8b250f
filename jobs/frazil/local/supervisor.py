"""`frazil local up | down | status`: start, stop and look at the local services of one folder."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from frazil.local import class_data
from frazil.local.aws import AWS
from frazil.local.broker import BROKER
from frazil.local.cache import cache_folder, exclusively
from frazil.local.loopback import ChoosePort, choosing_ports
from frazil.local.processes import ask_to_stop, is_alive, listener_on, listens, spawn, tail, wait_or_kill
from frazil.local.registry import REGISTRY
from frazil.local.rest import REST
from frazil.local.service import Ports, Service
from frazil.local.state import Running, ServiceState, State, read_state, write_state
from frazil.model.errors import ServiceError, SettingError
from frazil.model.settings import NOT_RUNNING_HOST

SERVICES: Mapping[str, Service] = {service.name: service for service in (REGISTRY, AWS, BROKER, REST)}
ALL = tuple(SERVICES)
OPTIONAL = ("rest",)
"""The services that `up` starts only if they are named."""
USUAL = tuple(name for name in ALL if name not in OPTIONAL)
OWNERS = {
    "bootstrap_servers": "broker",
    "schema_registry_url": "registry",
    "aws_endpoint_url": "aws",
    "rest_catalog_url": "rest",
}
"""The service behind each address of `LocalServices`."""

DIRECTORY = Path(".frazil/local")
PREFERRED_PORTS: Mapping[str, Ports] = {name: service.preferred_ports for name, service in SERVICES.items()}
ANY_FREE_PORTS: Mapping[str, Ports] = {}
POLL_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class LocalServices:
    """The addresses of the services. They stay the same after `down` and `up`.

    `rest_catalog_url` is None until that service is started for the first time.
    """

    bootstrap_servers: str
    schema_registry_url: str
    aws_endpoint_url: str
    rest_catalog_url: str | None = None


@dataclass(frozen=True, slots=True)
class ServiceStatus:
    """The status of one service. `running`: the process exists; `ready`: it also answers."""

    name: str
    address: str
    running: bool
    ready: bool
    pid: int | None
    log: str


@dataclass(frozen=True, slots=True)
class LocalStatus:
    """The status of all services of one folder. The addresses are None before the first `up`."""

    directory: str
    bootstrap_servers: str | None
    schema_registry_url: str | None
    aws_endpoint_url: str | None
    rest_catalog_url: str | None
    services: tuple[ServiceStatus, ...]

    def as_json(self) -> dict[str, object]:
        """Return the object that `frazil local status --json` prints."""
        return asdict(self) | {"services": {service.name: asdict(service) for service in self.services}}


def up(
    services: Collection[str] = USUAL,
    directory: Path = DIRECTORY,
    *,
    preferred_ports: Mapping[str, Ports] = PREFERRED_PORTS,
) -> LocalServices:
    """Start the services that do not run yet, and return when all of `services` answer."""
    directory = directory.absolute()
    wanted = [SERVICES[name] for name in _known(services)]
    for service in wanted:
        service.fetch()
    with exclusively(directory / "lock"), choosing_ports(cache_folder() / "ports.lock") as choose:
        state = _with_ports(read_state(directory), {*USUAL, *services}, preferred_ports, choose)
        write_state(directory, state)
        _bring_up(wanted, state, directory)
    return _addresses(state)


def down(directory: Path = DIRECTORY, *, wipe: bool = False) -> tuple[str, ...]:
    """Stop the processes that `up` started in this folder, in parallel. `wipe` also removes their data.

    Return the names of the services that were running. Records refer to schemas by the registry's ids, so `wipe`
    removes the data of the broker and of the registry together.
    """
    directory = directory.absolute()
    if not directory.exists():
        return ()
    with exclusively(directory / "lock"):
        state = read_state(directory)
        stopped = _stop_all(state, directory)
        write_state(directory, {name: replace(known, process=None) for name, known in state.items()})
        for name in ALL if wipe else ():
            shutil.rmtree(directory / name, ignore_errors=True)
    return stopped


def status(directory: Path = DIRECTORY) -> LocalStatus:
    directory = directory.absolute()
    state = read_state(directory)
    known = _addresses(state) if state else None
    return LocalStatus(
        directory=str(directory),
        bootstrap_servers=known.bootstrap_servers if known else None,
        schema_registry_url=known.schema_registry_url if known else None,
        aws_endpoint_url=known.aws_endpoint_url if known else None,
        rest_catalog_url=known.rest_catalog_url if known else None,
        services=tuple(_status_of(SERVICES[name], entry, directory) for name, entry in state.items()),
    )


def running_address(name: str, directory: Path = DIRECTORY) -> str:
    """Return the address of a running local service of this folder, by its field name in `LocalServices`.

    If the service does not run, return an address that never answers, as another program may use the port by now.
    """
    service = SERVICES[OWNERS[name]]
    entry = read_state(directory.absolute()).get(service.name)
    if entry is not None and entry.process is not None and _runs(entry) and listens(entry.process, entry.ports["main"]):
        return service.address(entry.ports)
    return service.address(service.preferred_ports).replace("127.0.0.1", NOT_RUNNING_HOST)


def _known(names: Collection[str]) -> list[str]:
    unknown = sorted(set(names) - set(ALL))
    if unknown:
        raise SettingError(
            f"Unknown local service {', '.join(unknown)}: expected {', '.join(ALL)}.",
            hint="run `frazil local up --help`",
        )
    return [name for name in ALL if name in names]


def _addresses(state: State) -> LocalServices:
    return LocalServices(
        bootstrap_servers=BROKER.address(state["broker"].ports),
        schema_registry_url=REGISTRY.address(state["registry"].ports),
        aws_endpoint_url=AWS.address(state["aws"].ports),
        rest_catalog_url=REST.address(state["rest"].ports) if "rest" in state else None,
    )


def _status_of(service: Service, entry: ServiceState, directory: Path) -> ServiceStatus:
    running = _runs(entry)
    return ServiceStatus(
        name=service.name,
        address=service.address(entry.ports),
        running=running,
        ready=running and _is_ready(service, entry),
        pid=entry.process.pid if entry.process and running else None,
        log=str(_log(service, directory)),
    )


def _runs(entry: ServiceState) -> bool:
    return entry.process is not None and is_alive(entry.process)


def _log(service: Service, directory: Path) -> Path:
    return directory / service.name / f"{service.name}.log"


def _with_ports(state: State, needed: Collection[str], preferred: Mapping[str, Ports], choose: ChoosePort) -> State:
    """Return the state with ports for each service: its former ports, else the preferred ones, else free ones."""
    return {
        name: _port_entry(service, state.get(name), preferred.get(name, {}), choose)
        for name, service in SERVICES.items()
        if name in needed or name in state
    }


def _port_entry(service: Service, entry: ServiceState | None, preferred: Ports, choose: ChoosePort) -> ServiceState:
    if entry is not None and _runs(entry):
        return entry
    wished = entry.ports if entry is not None else preferred
    ports = {role: choose(wished.get(role)) for role in service.preferred_ports}
    for role, port in ports.items():
        if role in wished and port != wished[role]:
            _say(f"{service.name}: port {wished[role]} is used by {listener_on(wished[role])}; using {port} instead")
    return ServiceState(ports)


def _bring_up(wanted: Sequence[Service], state: State, directory: Path) -> None:
    """Start each service that does not run, and wait until all answer."""
    began = time.monotonic()
    started: set[str] = set()
    while waiting := [service for service in wanted if not _is_ready(service, state[service.name])]:
        for service in waiting:
            if _runs(state[service.name]):
                _refuse_to_wait_on(service, state[service.name], directory, waited_seconds=time.monotonic() - began)
            elif service.name in started:
                raise _failed(service, state[service.name], directory, "but its process ended")
            else:
                started.add(service.name)
                state[service.name] = _start(service, state[service.name], directory)
                write_state(directory, state)
        time.sleep(POLL_SECONDS)


def _start(service: Service, entry: ServiceState, directory: Path) -> ServiceState:
    folder = directory / service.name
    folder.mkdir(parents=True, exist_ok=True)
    launch = service.prepare(folder, entry.ports)
    process = spawn(launch.command, environment=launch.environment, log=_log(service, directory))
    return ServiceState(entry.ports, process)


def _is_ready(service: Service, entry: ServiceState) -> bool:
    return entry.process is not None and listens(entry.process, entry.ports["main"]) and service.answers(entry.ports)


def _refuse_to_wait_on(service: Service, entry: ServiceState, directory: Path, *, waited_seconds: float) -> None:
    if waited_seconds > service.start_seconds:
        raise _failed(service, entry, directory, f"got none within {waited_seconds:.0f} s")


def _failed(service: Service, entry: ServiceState, directory: Path, found: str) -> ServiceError:
    log = _log(service, directory)
    return ServiceError(
        f"The local {service.name} did not start: expected an answer on {service.address(entry.ports)}, {found}. "
        f"The end of {log}:\n{tail(log)}",
        hint="run `frazil local down`, then `frazil local up`",
    )


def _stop_all(state: State, directory: Path) -> tuple[str, ...]:
    alive = {name: entry.process for name, entry in state.items() if entry.process and is_alive(entry.process)}
    for process in alive.values():
        ask_to_stop(process)
    for name, process in alive.items():
        if _await_stop(SERVICES[name], process):
            class_data.keep(directory / name)
    return tuple(alive)


def _await_stop(service: Service, process: Running) -> bool:
    """Wait for the service to stop. Return whether it exited without being killed."""
    ended = wait_or_kill(process, within_seconds=service.stop_seconds)
    if not ended:
        _say(f"{service.name}: did not stop within {service.stop_seconds:.0f} s and was killed")
    return ended


def _say(sentence: str) -> None:
    print(sentence, file=sys.stderr)
