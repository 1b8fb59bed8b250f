"""The configuration as the doctor loads it: each secret by name, and none of them keeps the rest from being asked."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from frazil.doctor.asking import Asking
from frazil.doctor.configuration import lacks_a_secret, load
from frazil.doctor.finding import Finding
from frazil.model.errors import ServiceError

CONFIG = """\
kafka:
  bootstrap.servers: "broker:9092"
  security.protocol: sasl_ssl
  sasl.mechanism: PLAIN
  sasl.username: ${secret:consumer#api_key}
  sasl.password: ${secret:consumer#api_secret}
schema_registry:
  url: https://registry
  basic.auth.user.info: ${secret:registry#api_key}:${secret:registry#api_secret}
# sasl.password: ${secret:of-before#key}
"""


@dataclass
class Vault:
    """Secrets by name; an error is raised, and a number slept before there is no answer."""

    texts: Mapping[str, str | Exception | float]

    def read(self, name: str) -> str | None:
        found = self.texts.get(name)
        if isinstance(found, Exception):
            raise found
        if isinstance(found, float):
            time.sleep(found)
            return None
        return found


GOOD = json.dumps({"api_key": "the-user-name", "api_secret": "the-password"})


@pytest.fixture
def config(tmp_path: Path) -> Path:
    (tmp_path / "tables").mkdir()
    (tmp_path / "tables" / "t.yaml").write_text("topic: t\n")
    path = tmp_path / "frazil.yaml"
    path.write_text(CONFIG)
    return path


def secret_findings(findings: tuple[Finding, ...]) -> dict[str, tuple[str, str]]:
    return {each.what: (each.verdict, each.found) for each in findings if each.what.startswith("secret")}


def test_each_secret_is_asked_by_name_and_its_value_known_as_one_to_hide(config: Path) -> None:
    loaded = load(config, {}, Vault({"consumer": GOOD, "registry": GOOD}), Asking("configuration"))

    assert secret_findings(loaded.findings) == {
        "secret consumer": ("ok", "readable"),
        "secret registry": ("ok", "readable"),
    }
    assert {"the-user-name", "the-password", "the-user-name:the-password"} <= loaded.secrets
    assert "the-password" not in repr(loaded)


def test_a_missing_secret_leaves_the_rest_of_the_configuration(config: Path) -> None:
    loaded = load(config, {}, Vault({"registry": GOOD}), Asking("configuration"))

    assert secret_findings(loaded.findings)["secret consumer"][0] == "failed"
    assert "the secret does not exist" in secret_findings(loaded.findings)["secret consumer"][1]
    assert loaded.settings is not None
    assert lacks_a_secret(loaded.settings.kafka)
    assert not lacks_a_secret(loaded.settings.registry.properties)


def test_a_forbidden_secret_is_told_with_the_permission_that_it_takes(config: Path) -> None:
    refusal = ServiceError("The secret consumer cannot be read: AccessDeniedException", hint="")

    loaded = load(config, {}, Vault({"consumer": refusal, "registry": GOOD}), Asking("configuration"))

    finding = next(each for each in loaded.findings if each.what == "secret consumer")
    assert finding.verdict == "failed"
    assert "secretsmanager:GetSecretValue on consumer" in finding.hint


def test_a_secret_without_the_key_names_the_keys_that_it_has(config: Path) -> None:
    other = json.dumps({"user": "somebody", "api_secret": "the-password"})

    loaded = load(config, {}, Vault({"consumer": other, "registry": GOOD}), Asking("configuration"))

    assert secret_findings(loaded.findings)["secret consumer"] == (
        "failed",
        "it has no key api_key; its keys: api_secret, user",
    )
    assert loaded.settings is not None
    assert lacks_a_secret(loaded.settings.kafka)


def test_a_silent_secrets_manager_is_waited_for_once(config: Path) -> None:
    loaded = load(config, {}, Vault({"consumer": 1.0, "registry": 1.0}), Asking("configuration", seconds=0.1))

    assert secret_findings(loaded.findings) == {
        "secret consumer": ("failed", "no answer within 0.1 s"),
        "secret registry": ("not asked", "AWS Secrets Manager did not answer before"),
    }


def test_a_configuration_that_cannot_be_read_says_why(config: Path) -> None:
    config.write_text("kafka: {bootstrap.server: broker}\nschema_registry: {url: http://r}\n")

    loaded = load(config, {}, Vault({}), Asking("configuration"))

    assert loaded.settings is None
    assert loaded.findings[0].verdict == "failed"
    assert "unknown key" in loaded.findings[0].found
