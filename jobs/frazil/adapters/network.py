"""Reach an address step by step: DNS, TCP, TLS. An error names the step that failed."""

from __future__ import annotations

import http.client
import socket
import ssl
import time
from dataclasses import dataclass, field
from datetime import datetime
from email.utils import parsedate_to_datetime

from frazil.model.errors import ServiceError, SettingError


@dataclass(frozen=True, slots=True)
class Tls:
    """The certificates of a TLS client. Without custom authorities, the system's are used."""

    verify: bool = True
    check_name: bool = True
    authorities_file: str | None = None
    authorities: str | None = None
    certificate: str | None = None
    key: str | None = None
    key_password: str | None = field(default=None, repr=False)

    def context(self) -> ssl.SSLContext:
        """Return the TLS context. Raises SettingError if a certificate or key file cannot be loaded."""
        try:
            return self._context()
        except (OSError, ValueError) as problem:
            named = ", ".join(filter(None, (self.authorities_file, self.certificate, self.key)))
            raise SettingError(
                f"could not load the certificates or key ({named}): {problem}",
                hint="they must be PEM, and the key must match the certificate",
            ) from problem

    def _context(self) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=self.authorities_file, cadata=self.authorities)
        context.check_hostname = self.verify and self.check_name
        context.verify_mode = ssl.CERT_REQUIRED if self.verify else ssl.CERT_NONE
        if self.certificate is not None:
            context.load_cert_chain(self.certificate, self.key, self.key_password)
        return context


@dataclass(frozen=True, slots=True)
class Address:
    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def reach(address: Address, tls: Tls | None, *, seconds: float) -> str:
    """Return the steps that succeeded. Raises ServiceError, or SettingError for certificates that cannot be used."""
    context = None if tls is None else tls.context()
    ips = _ips(address)
    began = time.monotonic()
    with _connected(address, ips, seconds) as connection:
        said = f"{connection.getpeername()[0]}, TCP in {(time.monotonic() - began) * 1000:.0f} ms"
        if context is None:
            return said
        with _encrypted(connection, address, context) as encrypted:
            return f"{said}, {encrypted.version()}"


def time_at(address: Address, tls: Tls | None, *, seconds: float) -> datetime | None:
    """Return the time of an HTTP server, or None if it sends no date. Raises ServiceError."""
    connection = http.client.HTTPConnection(address.host, address.port, timeout=seconds)
    if tls is not None:
        connection = http.client.HTTPSConnection(address.host, address.port, timeout=seconds, context=tls.context())
    try:
        connection.request("HEAD", "/")
        said = connection.getresponse().getheader("Date")
        return None if said is None else parsedate_to_datetime(said)
    except (OSError, http.client.HTTPException, ValueError) as problem:
        raise ServiceError(
            f"{address} does not speak HTTP: {_words(problem)}", hint="check that this is the registry's port"
        ) from problem
    finally:
        connection.close()


def _ips(address: Address) -> list[str]:
    try:
        found = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
    except OSError as problem:
        raise ServiceError(
            f"could not resolve {address.host}: {_words(problem)}",
            hint="fix the name; a private name resolves only inside its VPC, with DNS support enabled",
        ) from problem
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


def _connected(address: Address, ips: list[str], seconds: float) -> socket.socket:
    """Connect to the first address that answers; all addresses share the time limit."""
    deadline = time.monotonic() + seconds
    problem: OSError = OSError("no address")
    for ip in ips:
        try:
            return socket.create_connection((ip, address.port), timeout=max(deadline - time.monotonic(), 0.1))
        except OSError as failure:
            problem = failure
    raise ServiceError(f"no TCP connection to {address} ({', '.join(ips)}): {_words(problem)}", hint=_hint(problem))


def _hint(problem: OSError) -> str:
    if isinstance(problem, ConnectionRefusedError):
        return "the host is up, but nothing listens on this port: fix the port, or start the server"
    return (
        "no reply: check firewalls and security groups; from private subnets, check the NAT"
        " gateway or VPC endpoint and its route"
    )


def _encrypted(connection: socket.socket, address: Address, context: ssl.SSLContext) -> ssl.SSLSocket:
    try:
        return context.wrap_socket(connection, server_hostname=address.host)
    except ssl.SSLCertVerificationError as problem:
        raise ServiceError(
            f"TLS with {address}: the certificate was rejected: {problem.verify_message}",
            hint="set ssl.ca.location to the CA that signed it, and use a host name that the certificate covers",
        ) from problem
    except OSError as problem:
        raise ServiceError(
            f"the TLS handshake with {address} failed: {_words(problem)}",
            hint="check that this port speaks TLS, and whether it requires a client certificate",
        ) from problem


def _words(problem: Exception) -> str:
    return getattr(problem, "strerror", None) or str(problem) or type(problem).__name__
