"""The variables and files with which Terraform finds providers.

In the local cloud, stubs (`devcloud/stub_provider.py`) in a mirror of their own replace the providers of Confluent and
Snowflake. Everything is written below one folder, again at each call.
"""

from __future__ import annotations

import platform
import shlex
import sys
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

from infra.checkout import CHECKOUT
from infra.generate import SOURCES
from infra.terraform.provider_sources import REGISTRY, Method, configured, mirror, on_this_machine

STUBS = ("confluent", "snowflake")
MACHINES = {"x86_64": "amd64", "aarch64": "arm64"}
OVERRIDE = "FRAZIL_STUB_"


def terraform_environment(
    environment: Mapping[str, str], folder: Path, *, stubs: Collection[str] = ()
) -> dict[str, str]:
    """Return the variables to add to `environment`. `stubs` are the providers that a stub replaces.

    The user's own configuration is used, unless there are stubs: they need a generated one, which installs all other
    providers as the user's does but has no credentials.
    """
    folder = folder.absolute()
    cache = environment.get("TF_PLUGIN_CACHE_DIR") or str(folder / "plugin-cache")
    Path(cache).mkdir(parents=True, exist_ok=True)
    return {
        **_configuration(environment, folder, stubs),
        "TF_PLUGIN_CACHE_DIR": cache,
        "TF_PLUGIN_CACHE_MAY_BREAK_DEPENDENCY_LOCK_FILE": "1",  # stacks are synthesized anew, without a lock file
        "TF_IN_AUTOMATION": "1",
        "CHECKPOINT_DISABLE": "1",
    }


def stub_values(kind: str, **attributes: str) -> dict[str, str]:
    """Return the variables with the attributes that a stub returns for a type, such as `bootstrap_endpoint`."""
    return {f"{OVERRIDE}{kind}__{name}".upper(): value for name, value in attributes.items()}


def address(provider: str) -> str:
    """Return the address of a provider, such as `registry.terraform.io/hashicorp/aws`."""
    return f"{REGISTRY}/{SOURCES[provider].address}"


def build_stub_mirror(folder: Path, stubs: Iterable[str]) -> Path:
    """Write a mirror whose providers are scripts that run this Python, and return its folder."""
    for provider in stubs:
        full = SOURCES[provider].version
        script = folder / address(provider) / full / this_platform() / f"terraform-provider-{provider}_v{full}"
        script.parent.mkdir(parents=True, exist_ok=True)
        script.write_text(_script(provider, home=folder), encoding="utf-8")
        script.chmod(0o755)
    return folder


def _configuration(environment: Mapping[str, str], folder: Path, stubs: Collection[str]) -> dict[str, str]:
    home = Path(environment.get("HOME") or Path.home())
    named = environment.get("TF_CLI_CONFIG_FILE")
    users = Path(named) if named else home / ".terraformrc"
    if not stubs and users.is_file():
        return {}
    needed = {address(provider) for provider in SOURCES if provider not in STUBS}
    methods = configured(environment, home) or on_this_machine(environment, home, needed=needed)
    if stubs:
        methods = _with_stubs(methods, build_stub_mirror(folder / "stubs", stubs), stubs)
    file = folder / "terraform.rc"
    file.write_text("".join(("provider_installation {\n", *(one.written() for one in methods), "}\n")), "utf-8")
    return {"TF_CLI_CONFIG_FILE": str(file)}


def _with_stubs(methods: Iterable[Method], stub_mirror: Path, stubs: Iterable[str]) -> list[Method]:
    addresses = [address(provider) for provider in stubs]
    others = [one.without(addresses) for one in methods if one.kind != "dev_overrides"]
    return [mirror(stub_mirror, include=addresses), *others]


def this_platform() -> str:
    """Return this platform as Terraform names it, such as `linux_amd64`."""
    return f"{sys.platform}_{MACHINES.get(platform.machine(), platform.machine())}"


def _script(provider: str, *, home: Path) -> str:
    """Return the script of a stub. It sets `HOME`, because the protocol's library keeps a certificate below it."""
    words = shlex.join((sys.executable, "-W", "ignore", "-m", "devcloud.stub_provider", provider))
    paths = " ".join(f"{name}={shlex.quote(str(path))}" for name, path in (("PYTHONPATH", CHECKOUT), ("HOME", home)))
    return f"#!/bin/sh\nexec env {paths} {words}\n"
