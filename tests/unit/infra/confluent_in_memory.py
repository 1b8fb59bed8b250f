"""The double of Confluent Cloud without a socket: requests go to it by a call."""

from __future__ import annotations

from io import BytesIO
from typing import Any
from urllib.parse import urlsplit

import requests
from requests.adapters import BaseAdapter

from devcloud.confluent_double import Asked, ConfluentDouble
from frazil.model.secret import Secret
from shared.confluent_api import ConfluentCloud, KeyPair

WHO = KeyPair("CLOUDKEY", Secret("cloud-secret"))


class Wire(BaseAdapter):
    """`losing`: methods of requests that are carried out, each once, without their answers coming back.

    `unreachable`: hosts that are not there, each for one request.
    """

    def __init__(self, double: ConfluentDouble) -> None:
        super().__init__()
        self.asked: list[str] = []
        self.losing: list[str] = []
        self.unreachable: list[str] = []
        self._double = double

    def send(self, request: requests.PreparedRequest, *args: Any, **options: Any) -> requests.Response:
        body = request.body or b""
        content = body.encode() if isinstance(body, str) else body
        authorization = request.headers.get("Authorization", "")
        self.asked.append(f"{request.method} {request.path_url}")
        host = urlsplit(str(request.url)).hostname or ""
        if host in self.unreachable:
            self.unreachable.remove(host)
            raise requests.ConnectionError(f"{host}: name or service not known")
        answer = self._double.answer(Asked(str(request.method), request.path_url, authorization, content))
        if request.method in self.losing:
            self.losing.remove(request.method)
            raise requests.ConnectionError("connection reset by peer")
        response = requests.Response()
        response.status_code, response.raw, response.url = answer.status, BytesIO(answer.content), str(request.url)
        response.headers.update(answer.headers)
        response.request = request
        return response

    def close(self) -> None:
        """Nothing is open."""


def cloud_over(wire: Wire, slept: list[float], who: KeyPair = WHO) -> ConfluentCloud:
    session = requests.Session()
    session.mount("https://", wire)
    return ConfluentCloud(who, session=session, sleep=slept.append)
