"""An in-memory double of AWS on loopback, with the services that the stacks, the job and the Lambda functions use.

Its folder holds `calls.jsonl`, with one line per API call, and `job-runs/`, with the output of EMR Serverless job runs.
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
    """Return the launch of the double. Buckets, catalogs and other state are in memory and are lost on `down`."""
    packages = Path(frazil.__file__).parents[1]
    command = (sys.executable, "-W", "ignore", "-m", "frazil.local.aws_double", str(ports["main"]), str(folder))
    return Launch(command, {"PYTHONPATH": str(packages)})


def answers(ports: Ports) -> bool:
    """Return whether Glue lists its databases."""
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
