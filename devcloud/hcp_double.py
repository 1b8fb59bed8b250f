"""A double of HCP Terraform on loopback: as much of its API as `init` and a remote `plan` of a `cloud` backend need.

It takes the folder that Terraform uploads for a run, keeps it for tests to read, and refuses the run itself: there is
nothing here that could carry it out.

    with serving(HcpDouble("acme")) as address:
        rc = host_block(address)      # into Terraform's CLI configuration; the token: TF_TOKEN_app_terraform_io
"""

from __future__ import annotations

import io
import json
import re
import tarfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock, Thread
from typing import Any
from urllib.parse import urlsplit

HOST = "app.terraform.io"
API = "/api/v2"
UPLOAD = "/upload"
PERMISSIONS = (
    "can-create-state-versions can-destroy can-force-unlock can-lock can-queue-apply can-queue-destroy can-queue-run "
    "can-read-settings can-read-state-versions can-unlock can-update can-update-variable can-read-variable"
)
Document = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Answer:
    status: HTTPStatus
    document: Document | None = None


@dataclass(slots=True)
class HcpDouble:
    """One organization. What was seen: `workspaces` with their project, `uploads` as files, `tokens`, `runs`."""

    organization: str
    projects: tuple[str, ...] = ()
    terraform_version: str = "1.11.4"
    address: str = ""
    workspaces: dict[str, str] = field(default_factory=dict)
    uploads: list[dict[str, bytes]] = field(default_factory=list)
    runs: list[Document] = field(default_factory=list)
    tokens: set[str] = field(default_factory=set)
    _taking_turns: Lock = field(default_factory=Lock)

    def answer(self, method: str, target: str, content: bytes, authorization: str) -> Answer:
        """Answer a request without a network."""
        with self._taking_turns:
            path = urlsplit(target).path
            if path.startswith(UPLOAD):
                self.uploads.append(dict(_files(content)))
                return Answer(HTTPStatus.OK)
            self.tokens.add(authorization.removeprefix("Bearer "))
            for asked, pattern, act in self._routes():
                if asked == method and (found := re.fullmatch(API + pattern, path)):
                    return act(json.loads(content or b"null"), *found.groups())
            return _missing()

    def _routes(self) -> list[tuple[str, str, Callable[..., Answer]]]:
        organization = f"/organizations/{re.escape(self.organization)}"
        return [
            ("GET", "/ping", lambda _: Answer(HTTPStatus.NO_CONTENT)),
            ("GET", organization, lambda _: _found(self._organization())),
            ("GET", f"{organization}/entitlement-set", lambda _: _found(self._entitlements())),
            ("GET", f"{organization}/projects", lambda _: _listed(map(_project, self.projects))),
            ("POST", f"{organization}/workspaces", self._create_workspace),
            ("GET", f"{organization}/workspaces/([^/]+)", self._workspace),
            ("GET", "/workspaces/ws-([^/]+)", self._workspace),
            ("POST", "/workspaces/ws-[^/]+/configuration-versions", lambda _: self._configuration("pending")),
            ("GET", "/configuration-versions/[^/]+", lambda _: self._configuration("uploaded")),
            ("POST", "/runs", self._refuse_run),
        ]

    def _create_workspace(self, asked: Document) -> Answer:
        data = asked["data"]
        project = data.get("relationships", {}).get("project", {}).get("data", {}).get("id", "")
        name = data["attributes"]["name"]
        self.workspaces[name] = project.removeprefix("prj-")
        return Answer(HTTPStatus.CREATED, {"data": self._told(name)})

    def _workspace(self, _: None, name: str) -> Answer:
        return _found(self._told(name)) if name in self.workspaces else _missing()

    def _configuration(self, status: str) -> Answer:
        attributes = {"status": status, "upload-url": f"{self.address}{UPLOAD}/cv-1"}
        made = HTTPStatus.CREATED if status == "pending" else HTTPStatus.OK
        return Answer(made, {"data": _object("configuration-versions", "cv-1", attributes)})

    def _refuse_run(self, asked: Document) -> Answer:
        self.runs.append(asked["data"])
        return _failed(HTTPStatus.UNPROCESSABLE_ENTITY, "the double carries out no run")

    def _organization(self) -> Document:
        attributes = {"name": self.organization, "permissions": {"can-create-workspace": True}}
        return _object("organizations", self.organization, attributes)

    def _entitlements(self) -> Document:
        attributes = {"operations": True, "state-storage": True, "private-module-registry": True}
        return _object("entitlement-sets", self.organization, attributes)

    def _told(self, name: str) -> Document:
        attributes = {
            "name": name,
            "operations": True,
            "execution-mode": "remote",
            "terraform-version": self.terraform_version,
            "auto-apply": False,
            "locked": False,
            "working-directory": "",
            "permissions": dict.fromkeys(PERMISSIONS.split(), True),
            "setting-overwrites": {},
        }
        relationships = {
            "organization": {"data": {"id": self.organization, "type": "organizations"}},
            "project": {"data": {"id": f"prj-{self.workspaces[name]}", "type": "projects"}},
        }
        return {**_object("workspaces", f"ws-{name}", attributes), "relationships": relationships}


def host_block(address: str) -> str:
    """Return a block for Terraform's CLI configuration that redirects HCP Terraform to the double."""
    services = "".join(f'    "{name}" = "{address}{API}/"\n' for name in ("tfe.v2", "tfe.v2.1", "tfe.v2.2", "state.v2"))
    return f'host "{HOST}" {{\n  services = {{\n{services}  }}\n}}\n'


@contextmanager
def serving(double: HcpDouble) -> Iterator[str]:
    """Answer on a free port of loopback until the block ends."""
    server = _Server(("127.0.0.1", 0), _Handler)
    server.double = double
    double.address = f"http://127.0.0.1:{server.server_port}"
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield double.address
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Server(ThreadingHTTPServer):
    double: HcpDouble


class _Handler(BaseHTTPRequestHandler):
    """Takes requests from the socket; the server holds the double."""

    server: _Server

    def _serve(self) -> None:
        answer = self.server.double.answer(
            self.command, self.path, self._content(), self.headers.get("Authorization") or ""
        )
        content = b"" if answer.document is None else json.dumps(answer.document).encode()
        headers = {"Content-Type": "application/vnd.api+json", "TFP-API-Version": "2.6", "TFP-AppName": "HCP Terraform"}
        self.send_response(answer.status)
        for name, value in {**headers, "Content-Length": str(len(content))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def _content(self) -> bytes:
        if self.headers.get("Transfer-Encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        content = b""
        while size := int(self.rfile.readline(), 16):
            content += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return content

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _serve  # noqa: N815 - the names that http.server calls

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        del format, args


def _files(packed: bytes) -> Iterator[tuple[str, bytes]]:
    """Yield the files of Terraform's upload, a tar of its folder."""
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        for member in archive.getmembers():
            if member.isfile() and (content := archive.extractfile(member)) is not None:
                yield member.name.removeprefix("./"), content.read()


def _object(kind: str, name: str, attributes: Document) -> Document:
    return {"id": name, "type": kind, "attributes": attributes}


def _project(name: str) -> Document:
    return _object("projects", f"prj-{name}", {"name": name})


def _found(data: Document) -> Answer:
    return Answer(HTTPStatus.OK, {"data": data})


def _listed(found: Iterator[Document]) -> Answer:
    data = list(found)
    page = {"current-page": 1, "total-pages": 1, "total-count": len(data)}
    return Answer(HTTPStatus.OK, {"data": data, "meta": {"pagination": page}})


def _missing() -> Answer:
    return _failed(HTTPStatus.NOT_FOUND, "not found")


def _failed(status: HTTPStatus, detail: str) -> Answer:
    return Answer(status, {"errors": [{"status": str(int(status)), "title": status.phrase, "detail": detail}]})
