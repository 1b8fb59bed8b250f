"""An Iceberg REST catalog on loopback, with OAuth2. Its tables and its database are files, which survive a restart."""

from __future__ import annotations

import http.client
import sys
from http import HTTPStatus
from pathlib import Path

import frazil
from frazil.local import class_data, jars
from frazil.local.java import find_java
from frazil.local.rest_catalog import __main__ as process
from frazil.local.rest_catalog.tokens import Tokens
from frazil.local.service import Launch, Ports, Service

LOCK = "rest"
CLIENT_ID = "local"
CLIENT_SECRET = "local-secret"  # noqa: S105 - of a catalog on loopback, as the double of AWS has fixed keys
CONFIGURATION = Path(process.__file__).with_name("catalog.xml")
JVM_OPTIONS = (
    *("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:+ExitOnOutOfMemoryError"),
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
)


def address(ports: Ports) -> str:
    return f"http://127.0.0.1:{ports['main']}"


def prepare(folder: Path, ports: Ports) -> Launch:
    """Return the launch of the front, which starts the catalog's server itself."""
    data = folder / "data"
    data.mkdir(exist_ok=True)
    java = (find_java().command, *JVM_OPTIONS, "-cp", jars.class_path(LOCK))
    settings = (f"rest.port={ports['server']}", f"rest.folder={data}")
    xml = ("org.eclipse.jetty.xml.XmlConfiguration", *settings, str(CONFIGURATION))
    server = (*java, *class_data.using_or_recording(java, folder), *xml)
    front = (sys.executable, "-m", "frazil.local.rest_catalog", str(ports["main"]), str(ports["server"]))
    secrets = {process.CLIENT_ID: CLIENT_ID, process.CLIENT_SECRET: CLIENT_SECRET}
    return Launch((*front, *server), {"PYTHONPATH": str(Path(frazil.__file__).parents[1]), **secrets})


def answers(ports: Ports) -> bool:
    """Return whether the catalog answers to a token."""
    connection = http.client.HTTPConnection("127.0.0.1", ports["main"], timeout=5)
    token = Tokens(CLIENT_ID, CLIENT_SECRET).issue()
    try:
        connection.request("GET", "/v1/config", headers={"Authorization": f"Bearer {token}"})
        return connection.getresponse().status == HTTPStatus.OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


REST = Service(
    name="rest",
    preferred_ports={"main": 8181, "server": 8182},
    start_seconds=120,
    stop_seconds=40,
    address=address,
    fetch=lambda: (find_java(), jars.fetch(LOCK)),
    prepare=prepare,
    answers=answers,
)
