"""Start, recognise and stop processes that outlive the command that started them."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import psutil

from frazil.local.state import Running

LOG_TAIL_LINES = 20
CONNECT_SECONDS = 1.0


def spawn(command: Sequence[str], *, environment: Mapping[str, str], log: Path) -> Running:
    """Start a process in a session of its own, with its output in `log`; keep the previous log as `<log>.1`."""
    if log.exists():
        log.replace(log.with_name(f"{log.name}.1"))
    with log.open("wb") as output:
        child = subprocess.Popen(
            command,
            env=os.environ | environment,
            cwd=log.parent,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    running = Running(child.pid, _started(child.pid) or "")
    child.returncode = 0  # the state file tracks the process from here on; keeps Popen from warning when it is deleted
    return running


def is_alive(process: Running) -> bool:
    return _started(process.pid) == process.started


def listens(process: Running, port: int) -> bool:
    """Return whether this process, not another one, listens on the loopback port.

    Connects first, because a list of its sockets costs as much CPU as a hundred refused connections, and callers wait
    for processes that start.
    """
    if not _accepts(port):
        return False
    try:
        sockets = psutil.Process(process.pid).net_connections(kind="tcp")
    except psutil.Error:
        return False
    return any(held.status == psutil.CONN_LISTEN and held.laddr.port == port for held in sockets)


def _accepts(port: int) -> bool:
    with socket.socket() as client:
        client.settimeout(CONNECT_SECONDS)
        return client.connect_ex(("127.0.0.1", port)) == 0


def listener_on(port: int) -> str:
    """Describe the process that listens on a loopback port, as far as this user may see it."""
    try:
        sockets = psutil.net_connections(kind="tcp")
        listening = (held for held in sockets if held.status == psutil.CONN_LISTEN)
        pids = (held.pid for held in listening if getattr(held.laddr, "port", None) == port)
        owner = psutil.Process(next(filter(None, pids)))
        return f"{owner.name()} (process {owner.pid}, in {owner.cwd()})"
    except (psutil.Error, StopIteration):
        return "another program"


def ask_to_stop(process: Running) -> None:
    _signal_group(process, signal.SIGTERM)


def wait_or_kill(process: Running, *, within_seconds: float) -> bool:
    """Wait for a process that received SIGTERM, then kill it. Return whether it exited without being killed."""
    if _is_gone(process, within_seconds):
        return True
    _signal_group(process, signal.SIGKILL)
    _is_gone(process, within_seconds)
    return False


def tail(log: Path) -> str:
    try:
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    except FileNotFoundError:
        return "(no log)"
    return "\n".join(lines[-LOG_TAIL_LINES:])


def _started(pid: int) -> str | None:
    """Return when the process with this id started; None if there is no such process or it is a zombie.

    On Linux the start is in clock ticks since boot, so that setting the wall clock does not change it.
    """
    try:
        seen = psutil.Process(pid)
        if seen.status() == psutil.STATUS_ZOMBIE and seen.num_threads() == 1:  # other threads still hold its ports
            return None
        return _linux_start(pid) if psutil.LINUX else repr(seen.create_time())
    except (psutil.Error, OSError):
        return None


def _linux_start(pid: int) -> str:
    boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    after_name = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2]
    return f"{boot} {after_name.split()[19]}"


def _signal_group(process: Running, number: signal.Signals) -> None:
    if is_alive(process):
        os.killpg(process.pid, number)


def _is_gone(process: Running, within_seconds: float) -> bool:
    if not is_alive(process):
        return True
    try:
        psutil.Process(process.pid).wait(timeout=within_seconds)
    except psutil.NoSuchProcess:
        return True
    except psutil.TimeoutExpired:
        return not is_alive(process)
    return True
