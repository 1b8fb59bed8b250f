"""The addresses in the settings, and their TLS settings. Pure functions."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlsplit

from frazil.adapters.network import Address, Tls
from frazil.model.secret import SettingValue, revealed
from frazil.model.settings import RegistrySettings

KAFKA_PORT = 9092
ONLY_LIBRDKAFKA = ("ssl.keystore.location", "ssl.certificate.pem", "ssl.key.pem")
"""Client certificates that Python's TLS cannot use. A server may refuse a handshake without them."""
PORTS = {"http": 80, "https": 443}


def brokers_of(kafka: Mapping[str, SettingValue]) -> tuple[Address, ...]:
    servers = revealed(kafka).get("bootstrap.servers", "")
    return tuple(address_of(each.strip()) for each in servers.split(",") if each.strip())


def address_of(text: str) -> Address:
    """Parse `host:port`, also as `PROTOCOL://host:port` or with an IPv6 address in brackets."""
    parts = urlsplit(f"//{text.rpartition('://')[2]}")
    return Address(parts.hostname or text, parts.port or KAFKA_PORT)


def tls_of_kafka(kafka: Mapping[str, SettingValue]) -> Tls | None:
    """Return the TLS settings; None if the cluster uses plain text or a client certificate that Python cannot use."""
    given = revealed(kafka)
    encrypted = given.get("aws_msk_iam") == "true" or given.get("security.protocol", "").lower().endswith("ssl")
    if not encrypted or any(given.get(name) for name in ONLY_LIBRDKAFKA):
        return None
    authorities = given.get("ssl.ca.location")
    return Tls(
        verify=given.get("enable.ssl.certificate.verification", "true") == "true",
        check_name=given.get("ssl.endpoint.identification.algorithm", "https") == "https",
        authorities_file=None if authorities == "probe" else authorities,
        authorities=given.get("ssl.ca.pem"),
        certificate=given.get("ssl.certificate.location"),
        key=given.get("ssl.key.location"),
        key_password=given.get("ssl.key.password"),
    )


def registry_address(registry: RegistrySettings) -> Address:
    parts = urlsplit(registry.url)
    return Address(parts.hostname or registry.url, parts.port or PORTS.get(parts.scheme, PORTS["https"]))


def tls_of_registry(registry: RegistrySettings) -> Tls | None:
    if urlsplit(registry.url).scheme != "https":
        return None
    given = revealed(registry.properties)
    return Tls(
        authorities_file=given.get("ssl.ca.location"),
        certificate=given.get("ssl.certificate.location"),
        key=given.get("ssl.key.location"),
        key_password=given.get("ssl.key.password"),
    )
