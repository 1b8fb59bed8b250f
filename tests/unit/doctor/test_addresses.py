from __future__ import annotations

import pytest

from frazil.adapters.network import Address, Tls
from frazil.doctor.addresses import address_of, brokers_of, registry_address, tls_of_kafka, tls_of_registry
from frazil.model.secret import Secret
from frazil.model.settings import RegistrySettings


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("broker:9093", Address("broker", 9093)),
        ("broker", Address("broker", 9092)),
        ("SASL_SSL://broker.example.com:9096", Address("broker.example.com", 9096)),
        ("[::1]:9092", Address("::1", 9092)),
    ],
)
def test_brokers_are_named_in_several_ways(text: str, address: Address) -> None:
    assert address_of(text) == address


def test_every_bootstrap_server_is_one_to_reach() -> None:
    assert brokers_of({"bootstrap.servers": "a:1, b:2,"}) == (Address("a", 1), Address("b", 2))
    assert str(Address("::1", 2)) == "[::1]:2"


def test_tls_is_as_the_settings_say() -> None:
    assert tls_of_kafka({"security.protocol": "sasl_plaintext"}) is None
    assert tls_of_kafka({"security.protocol": "ssl", "ssl.keystore.location": "store.p12"}) is None
    assert tls_of_kafka({"aws_msk_iam": "true"}) == Tls()
    given = {
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": "probe",
        "ssl.endpoint.identification.algorithm": "none",
        "ssl.certificate.location": "c.pem",
        "ssl.key.location": "k.pem",
        "ssl.key.password": Secret("hidden"),
    }
    made = tls_of_kafka(given)
    assert made == Tls(check_name=False, certificate="c.pem", key="k.pem", key_password="hidden")
    assert "hidden" not in repr(made)


def test_the_registry_is_at_the_port_of_its_scheme() -> None:
    secure = RegistrySettings("https://registry.example.com/path", {"ssl.ca.location": "ca.pem"})

    assert registry_address(secure) == Address("registry.example.com", 443)
    assert tls_of_registry(secure) == Tls(authorities_file="ca.pem")
    assert registry_address(RegistrySettings("http://r:8081")) == Address("r", 8081)
    assert tls_of_registry(RegistrySettings("http://r:8081")) is None
