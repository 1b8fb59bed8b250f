"""Check that files in the warehouse can be listed, written, read and removed, with a file that belongs to no table."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from frazil.adapters.storage.probe import CONTENT, NAME, StorageProbe
from frazil.doctor.asking import Asking
from frazil.doctor.configuration import lacks_a_secret
from frazil.doctor.finding import Finding, not_asked
from frazil.doctor.ways import SLACK_SECONDS
from frazil.model.errors import CatalogError
from frazil.model.settings import CatalogSettings

TIMED_OUT = "NETWORK_CONNECTION"
STEPS = ("list", "put", "get", "remove")


def ask_warehouse(catalog: CatalogSettings, asking: Asking, *, new_id: str) -> Iterator[Finding]:
    if catalog.type == "rest":
        yield from _not_asked(STEPS, "a rest catalog places each table itself")
    elif not catalog.warehouse.startswith("s3://"):
        yield asking.ask(catalog.warehouse, lambda: try_folder(Path(catalog.warehouse), new_id=new_id))
    elif lacks_a_secret(catalog.properties):
        yield from _not_asked(STEPS, "a secret of `catalog` is missing")
    else:
        yield from ask_bucket(StorageProbe(catalog, new_id=new_id, seconds=asking.seconds), asking)


def ask_bucket(probe: StorageProbe, asking: Asking) -> Iterator[Finding]:
    """List the bucket; write, read and remove an object. It is removed even if it cannot be read."""
    patient = replace(asking, seconds=asking.seconds + SLACK_SECONDS)
    listed = patient.ask("list", probe.list)
    yield listed
    if listed.is_silence or TIMED_OUT in listed.found:
        yield from _not_asked(STEPS[1:], "it does not answer")
        return
    put = patient.ask("put", probe.put)
    yield put
    if put.verdict == "failed":
        yield from _not_asked(STEPS[2:], "nothing could be put")
        return
    rest: tuple[tuple[str, Callable[[], str]], ...] = (("get", probe.get), ("remove", probe.remove))
    for what, act in rest:
        yield patient.ask(what, act)


def try_folder(folder: Path, *, new_id: str) -> str:
    """Test the folder, or the existing parent in which it would be created. Raises CatalogError."""
    there = next(each for each in (folder, *folder.parents) if each.exists())
    file = there / f"{NAME}{new_id}"
    try:
        file.write_bytes(CONTENT)
        same = file.read_bytes() == CONTENT
        file.unlink()
    except OSError as problem:
        raise CatalogError(
            f"no file can be written, read and removed in {there}: {problem.strerror}",
            hint=f"run `ls -ld {there}` and `df {there}`, or fix `catalog: warehouse`",
        ) from problem
    if not same:
        raise CatalogError(f"{there} does not return what was written", hint="check the disk")
    return "a file written, read and removed" if there == folder else f"{folder.name} can be created in {there}"


def _not_asked(steps: tuple[str, ...], why: str) -> Iterator[Finding]:
    return (not_asked("warehouse", step, why) for step in steps)
