"""A front of the local registry that adds what Confluent's has and Apicurio lacks: the GUIDs of schemas.

A GUID is a hash of the schema: equal schemas have equal GUIDs in all registries. The front answers
`GET /schemas/guids/{guid}`, and adds `guid` to each schema that the registry returns with its id.

It can also answer as a registry does that has deleted subjects for good, which Apicurio refuses while others refer to
them.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Collection
from contextlib import AbstractContextManager
from hashlib import md5
from http import HTTPStatus
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import urlsplit

from tests.fakes.on_loopback import on_loopback

GUIDS = "/schemas/guids/"
SUBJECTS = "/subjects/"
NO_SCHEMA = {"error_code": 40403, "message": "Schema not found"}
NO_SUBJECT = {"error_code": 40401, "message": "Subject not found"}


def guid_front(url: str, deleted: Collection[str] = ()) -> AbstractContextManager[str]:
    """Serve a front of the registry with this URL, which no longer has the subjects `deleted`; return its URL."""
    return on_loopback(_handler(url, deleted))


def guid_of(schema: dict[str, Any]) -> str:
    """Return the GUID of a schema, which is the same in every registry."""
    parts = [schema.get("schemaType", "AVRO"), schema["schema"], schema.get("references", [])]
    return str(uuid.UUID(bytes=md5(json.dumps(parts).encode(), usedforsecurity=False).digest()))


def _handler(url: str, deleted: Collection[str]) -> type[BaseHTTPRequestHandler]:
    behind = urlsplit(url)
    known: dict[str, dict[str, Any]] = {}

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            path = self.path.partition("?")[0]
            if path.startswith(GUIDS):
                found = known.get(path.removeprefix(GUIDS))
                self._answer(HTTPStatus.OK if found else HTTPStatus.NOT_FOUND, found or NO_SCHEMA)
            elif path.startswith(SUBJECTS) and path.removeprefix(SUBJECTS).partition("/")[0] in deleted:
                self._answer(HTTPStatus.NOT_FOUND, NO_SUBJECT)
            else:
                self._hand_on(None)

        def do_POST(self) -> None:
            self._hand_on(self.rfile.read(int(self.headers["Content-Length"])))

        def _hand_on(self, body: bytes | None) -> None:
            connection = HTTPConnection(behind.netloc, timeout=60)
            try:
                given = {"Content-Type": "application/vnd.schemaregistry.v1+json"} if body else {}
                connection.request(self.command, behind.path + self.path, body, given)
                answer = connection.getresponse()
                content = answer.read()
            finally:
                connection.close()
            try:
                found = json.loads(content)
            except ValueError:
                found = {"error_code": answer.status, "message": content.decode()}
            schema = found if "schema" in found else {} if body is None else json.loads(body)
            if answer.status == HTTPStatus.OK and isinstance(found, dict) and "schema" in schema:
                found["guid"] = guid_of(schema)
                known[found["guid"]] = {name: schema[name] for name in _KEPT if name in schema} | {
                    "guid": found["guid"]
                }
            self._answer(HTTPStatus(answer.status), found)

        def _answer(self, status: HTTPStatus, value: object) -> None:
            content = json.dumps(value).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None: ...

    return Handler


_KEPT = ("schema", "schemaType", "references")
