"""Keep other runs out of an environment while one works on its files, and while its Terraform does."""

from __future__ import annotations

import fcntl
import os
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from frazil.model.errors import ServiceError, SettingError

_HELD: list[int] = []
"""The descriptors of the locks that this process holds."""


@contextmanager
def alone(environment: str, folder: Path) -> Iterator[None]:
    """Hold the lock of the environment, whose files are in `folder`, which only this user may enter afterwards.

    The system releases it when this process and the children that inherited it have ended, even if they are killed.
    Raises ServiceError if another run holds it, SettingError if the files are another user's.
    """
    file = folder.with_name(f"{folder.name}.running")
    try:
        _keep_private(folder)
        opened = file.open("a+", encoding="utf-8")
    except PermissionError as refused:
        raise _of_another_user(environment, folder, refused) from refused
    with opened as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise _in_progress(environment, file) from None
        lock.truncate(0)
        lock.write(f"{os.getpid()}\n")
        lock.flush()
        _HELD.append(lock.fileno())
        try:
            yield
        finally:
            _HELD.remove(lock.fileno())


def to_inherit() -> tuple[int, ...]:
    """Return the descriptors for a child that works on the environment, and may outlive this process."""
    return tuple(_HELD)


def _keep_private(folder: Path) -> None:
    """Make the folder if it does not exist, and allow only this user to enter it: it may hold local states."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    folder.mkdir(mode=0o700, exist_ok=True)
    folder.chmod(0o700)


def _of_another_user(environment: str, folder: Path, refused: PermissionError) -> SettingError:
    return SettingError(
        f"the files of the environment {environment} belong to another user: {refused.strerror}: {refused.filename}",
        hint="work in a checkout of your own, with a shared state (`backend` in the settings), or run the command as "
        f"the owner, whom `ls -ld {folder}` shows",
    )


def _in_progress(environment: str, file: Path) -> ServiceError:
    other = file.read_text(encoding="utf-8").strip()
    if _is_running(other):
        return ServiceError(
            f"another run is in progress for the environment {environment}: process {other}", hint="wait until it ends"
        )
    return ServiceError(
        f"another run is in progress for the environment {environment}: process {other} has ended, but a process that "
        f"it started, such as Terraform, still holds the lock {file}",
        hint=f"`fuser -v {shlex.quote(str(file))}`, or `lsof` instead of `fuser -v`, shows that process. If it is "
        "`terraform`, wait until it ends, since it is still changing resources. End the others: providers "
        "(`terraform-provider-…`) whose Terraform was killed, and what a `credential_process` of your AWS profile has "
        "left running, such as a browser or an agent",
    )


def _is_running(process: str) -> bool:
    try:
        os.kill(int(process), 0)
    except (ValueError, ProcessLookupError):
        return False
    except PermissionError:
        return True
    return True
