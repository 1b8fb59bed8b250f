"""The content of `.frazil/local/state.json`: the ports of every service, and its process."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from frazil.model.errors import SettingError


@dataclass(frozen=True, slots=True)
class Running:
    """A process. Its start time distinguishes it from later processes with the same id."""

    pid: int
    started: str


@dataclass(frozen=True, slots=True)
class ServiceState:
    """The state of a service. The ports are kept when the process ends, so that the next one gets the same ports."""

    ports: Mapping[str, int]
    process: Running | None = None


State = dict[str, ServiceState]


def read_state(directory: Path) -> State:
    """Return the recorded services, or {} if nothing is recorded. Raises SettingError if the file is damaged."""
    path = directory / "state.json"
    try:
        written = json.loads(path.read_text(encoding="utf-8"))
        return {name: _parse(entry) for name, entry in written.items()}
    except FileNotFoundError:
        return {}
    except (ValueError, TypeError, KeyError, AttributeError) as exc:
        raise SettingError(
            f"Could not read the state of the local services from {path}: expected what `frazil local up` wrote, "
            f"found: {exc}.",
            hint=f"stop their processes, delete {path} and run `frazil local up`",
        ) from exc


def write_state(directory: Path, state: State) -> None:
    """Replace the state file atomically: a reader sees the old state or the new one, never a part."""
    entries = {name: asdict(service) for name, service in sorted(state.items())}
    with tempfile.NamedTemporaryFile("w", dir=directory, prefix=".state", delete=False, encoding="utf-8") as file:
        json.dump(entries, file, indent=2)
    Path(file.name).replace(directory / "state.json")


def _parse(entry: dict[str, dict[str, int] | None]) -> ServiceState:
    ports, process = entry["ports"], entry["process"]
    return ServiceState(
        ports={name: int(port) for name, port in (ports or {}).items()},
        process=Running(int(process["pid"]), str(process["started"])) if process else None,
    )
