"""A folder with a configuration in it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from config_files import GOOD, Load

from frazil.model.settings import Settings
from frazil.specs.load import load_settings
from frazil.specs.placeholders import LocalAddress, no_local_services
from tests.fakes.clients_in_memory import SecretsInMemory


@pytest.fixture
def load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Load:
    """Writes frazil.yaml and table specs into an empty folder, goes there, and loads them."""
    monkeypatch.chdir(tmp_path)

    def write_and_load(
        settings: str = GOOD,
        *specs: str,
        env: Mapping[str, str] | None = None,
        secrets: Mapping[str, str] | None = None,
        local: LocalAddress = no_local_services,
    ) -> Settings:
        Path("frazil.yaml").write_text(settings, encoding="utf-8")
        Path("tables").mkdir()
        for name, spec in zip("abcdef", specs or ("topic: orders",), strict=False):
            Path(f"tables/{name}.yaml").write_text(spec, encoding="utf-8")
        return load_settings(Path("frazil.yaml"), env or {}, SecretsInMemory(secrets or {}), local=local)

    return write_and_load
