"""The AWS provider as one process that many commands of Terraform share.

Terraform starts a provider up to three times for each command, and verifies its 600 MB each time: 2 to 6 CPU seconds.
With TF_REATTACH_PROVIDERS it uses a process that runs already. The process has its own credentials, its own endpoint
and its own working directory, whatever Terraform has, so each local cloud needs a process of its own.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from infra.generate import SOURCES
from infra.terraform.environment import STUBS, address, terraform_environment, this_platform
from infra.terraform.provider_locks import write_lock
from infra.terraform.runner import Terraform

ROOT = Path(__file__).parents[2]
REATTACH = "TF_REATTACH_PROVIDERS"
START_SECONDS = 60.0
LOOK_SECONDS = 0.05


@contextmanager
def shared_provider(executable: Path, *, endpoint_url: str, region: str, folder: Path) -> Iterator[Mapping[str, str]]:
    """Yield the variables with which Terraform uses a provider that runs in `folder`."""
    own = {"AWS_ACCESS_KEY_ID": "local", "AWS_SECRET_ACCESS_KEY": "local", "AWS_EC2_METADATA_DISABLED": "true"}
    env = {**_without_aws(os.environ), **own, "AWS_ENDPOINT_URL": endpoint_url, "AWS_REGION": region, "GOGC": "400"}
    log = folder / "provider.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [executable, "-debug"], cwd=folder, env=env, stdin=subprocess.DEVNULL, stdout=output, stderr=output
        )
    try:
        yield {REATTACH: _told(process, log)}
    finally:
        process.kill()
        process.wait()


def installed_executable(folder: Path) -> Path:
    """Install the provider as a stack does, its hash verified by the committed lock file, and return its executable."""
    source = {"source": SOURCES["aws"].address, "version": SOURCES["aws"].version}
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "main.tf.json").write_text(json.dumps({"terraform": {"required_providers": {"aws": source}}}))
    write_lock(folder, this_platform(), without=[address(name) for name in STUBS])
    env = {**os.environ, **terraform_environment(os.environ, folder / "terraform", stubs=STUBS)}
    terraform = Terraform("provider", folder, env, folder / "log", lambda _: None)
    terraform.init()
    return executable_in(terraform.data)


def executable_in(data: Path) -> Path:
    """Return the executable of the AWS provider below the data folder of an initialised stack."""
    (found,) = (data / "providers" / address("aws")).glob("*/*/terraform-provider-aws*")
    return found.resolve()


def link_assets(stacks: Path, folder: Path) -> None:
    """Link the files that the provider reads by a path relative to the stack's folder: zips of Lambda functions."""
    (folder / "assets").mkdir(parents=True)
    for asset in stacks.glob("*/assets/*"):
        (folder / "assets" / asset.name).symlink_to(asset)


def _without_aws(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if not name.startswith("AWS_")}


def _told(process: subprocess.Popen[bytes], log: Path) -> str:
    """Wait for the value of TF_REATTACH_PROVIDERS, which the provider prints."""
    deadline = time.monotonic() + START_SECONDS
    while process.poll() is None and time.monotonic() < deadline:
        for line in log.read_text().splitlines():
            if line.strip().startswith(f"{REATTACH}='"):
                return line.strip().removeprefix(f"{REATTACH}='").removesuffix("'")
        time.sleep(LOOK_SECONDS)
    raise AssertionError(f"the AWS provider did not start: {log.read_text()[-2000:]}")
