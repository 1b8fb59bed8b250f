"""A double of AWS on loopback, in memory: what the stacks are made of, and what the job and the functions call.

Its folder has `calls.jsonl`, a line for every API call, and `job-runs/`, the outputs of what EMR Serverless ran.
"""

from __future__ import annotations

import http.client
import sys
from pathlib import Path

import frazil
from frazil.local.service import Launch, Ports, Service


def address(ports: Ports) -> str:
    return f"http://127.0.0.1:{ports['main']}"


def prepare(folder: Path, ports: Ports) -> Launch:
    """Buckets, catalogs and all else are in memory, and gone after `down`."""
    packages = Path(frazil.__file__).parents[1]
    command = (sys.executable, "-W", "ignore", "-m", "frazil.local.aws_double", str(ports["main"]), str(folder))
    return Launch(command, {"PYTHONPATH": str(packages)})


def answers(ports: Ports) -> bool:
    """Whether Glue lists its databases."""
    connection = http.client.HTTPConnection("127.0.0.1", ports["main"], timeout=5)
    headers = {"X-Amz-Target": "AWSGlue.GetDatabases", "Content-Type": "application/x-amz-json-1.1"}
    try:
        connection.request("POST", "/", body="{}", headers=headers)
        return connection.getresponse().status == http.HTTPStatus.OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


AWS = Service(
    name="aws",
    preferred_ports={"main": 4566},
    start_seconds=120,
    stop_seconds=20,
    address=address,
    fetch=lambda: None,
    prepare=prepare,
    answers=answers,
)
