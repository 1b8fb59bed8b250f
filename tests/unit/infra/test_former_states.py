"""States that are not where the settings say, with a stand-in for Terraform that keeps them in a folder."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from infra.deploy.asked import Asked
from infra.deploy.clouds import LOCAL
from infra.deploy.deployment import Deployment, open_deployment
from infra.deploy.stacks.deployed import synthesize
from infra.deploy.stacks.former_states import move_states, refuse_former_states
from infra.deploy.steps import STEPS
from infra.settings.model import HcpState, LocalState, S3State
from infra.terraform.runner import Initialised, Terraform, TerraformError, _terraform_blocks

STAND_IN = """#!{python}
import json, os, pathlib, sys
store = pathlib.Path({store!r})
block = json.loads(pathlib.Path("cdk.tf.json").read_text())["terraform"]
config = block.get("cloud") or next(iter(block["backend"].values()))
place = config.get("bucket") or config.get("organization") or "local"
with open(store / "calls", "a") as calls:
    calls.write(f"{{' '.join(sys.argv[1:3])}} {{place}} {{os.environ.get('TF_WORKSPACE')}}\\n")
state = store / place
if sys.argv[1] == "init":
    kind = "cloud" if "cloud" in block else next(iter(block["backend"]))
    key = {{"key": f"frazil/dev/{{pathlib.Path.cwd().name}}.tfstate"}} if kind == "s3" else {{}}
    data = pathlib.Path(os.environ["TF_DATA_DIR"])
    (data / "terraform.tfstate").write_text(json.dumps({{"backend": {{"type": kind, "config": config | key}}}}))
if place == "gone":
    sys.exit("Error: NoSuchBucket")
if sys.argv[1:3] == ["state", "pull"] and state.exists():
    print(state.read_text())
if sys.argv[1:3] == ["state", "push"]:
    state.write_text(pathlib.Path(sys.argv[3]).read_text())
"""
CLOUD = {
    "hostname": "app.terraform.io",
    "organization": "acme",
    "workspaces": {"name": "frazil-dev-lake", "tags": None},
}
TEAM = S3State("team", "us-east-1")
HCP = HcpState("acme", "lake", "app.terraform.io")


def state(serial: int = 3, lineage: str = "a", *, has_resources: bool = True, id_: str = "vpc-1") -> str:
    resource = {
        "mode": "managed",
        "type": "aws_vpc",
        "name": "x",
        "instances": [{"attributes": {"id": id_}}] if has_resources else [],
    }
    return json.dumps({"lineage": lineage, "serial": serial, "resources": [resource]})


def s3(bucket: str, region: str = "us-east-1") -> Mapping[str, Any]:
    return {"type": "s3", "config": {"bucket": bucket, "key": "frazil/dev/lake.tfstate", "region": region, "acl": None}}


@pytest.fixture
def deployment(tmp_path: Path) -> Deployment:
    return replace(open_deployment("dev", "me", asks=False), checkout=tmp_path)


def with_backend(deployment: Deployment, backend: LocalState | S3State | HcpState) -> Deployment:
    return replace(deployment, settings=replace(deployment.settings, backend=backend))


@pytest.fixture
def terraform_of(deployment: Deployment, tmp_path: Path) -> Callable[[Deployment], Callable[[str], Terraform]]:
    stand_in = tmp_path / "bin" / "terraform"
    stand_in.parent.mkdir()
    stand_in.write_text(STAND_IN.format(python=sys.executable, store=str(tmp_path)))
    stand_in.chmod(0o755)

    def of(there: Deployment) -> Callable[[str], Terraform]:
        backend = there.settings.backend
        block: dict[str, Any] = {"backend": {"local": {}}}
        if isinstance(backend, S3State):
            block = {"backend": {"s3": {"bucket": backend.bucket}}}
        elif isinstance(backend, HcpState):
            block = {"cloud": CLOUD}

        def terraform(stack: str) -> Terraform:
            folder = there.synthesized / "stacks" / stack
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "cdk.tf.json").write_text(json.dumps({"terraform": block}))
            env = {"PATH": f"{stand_in.parent}{os.pathsep}{os.environ['PATH']}", "TF_WORKSPACE": "default"}
            return Terraform(stack, folder, env, tmp_path / "log", print)

        return terraform

    return of


def record(deployment: Deployment, backend: Mapping[str, Any], stack: str = "lake") -> Path:
    file = deployment.terraform_data(stack) / "terraform.tfstate"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps({"version": 3, "backend": backend}))
    return file


def local_state(deployment: Deployment, stack: str, content: str) -> Path:
    file = deployment.folder / "state" / f"{stack}.tfstate"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(content)
    return file


def calls(folder: Path) -> list[str]:
    file = folder / "calls"
    return file.read_text().splitlines() if file.exists() else []


def test_a_team_backend_is_refused_for_all_stacks_with_a_local_state_until_they_are_moved(
    deployment: Deployment, terraform_of: Any, tmp_path: Path
) -> None:
    files = [local_state(deployment, stack, state()) for stack in ("network", "lake", "snowflake")]
    local_state(deployment, "jobs", state(has_resources=False))
    there = with_backend(deployment, TEAM)

    with pytest.raises(TerraformError) as refused:
        refuse_former_states(there, ("network", "lake", "jobs"), terraform_of(there))

    for stack, file in zip(("network", "lake", "snowflake"), files, strict=True):
        assert f"{stack}: expected s3://team/frazil/dev/{stack}.tfstate, found {file}" in refused.value.what
    assert "jobs:" not in refused.value.what
    assert f"`{there.step('move-states')}`" in refused.value.hint
    assert not any("push" in call for call in calls(tmp_path))


def test_a_state_that_has_outputs_alone_is_moved_too(deployment: Deployment, terraform_of: Any, tmp_path: Path) -> None:
    """As of the secrets of a cluster that is not ours; the stack of the jobs reads the outputs."""
    file = local_state(
        deployment, "secrets", json.dumps(json.loads(state(has_resources=False)) | {"outputs": {"a": 1}})
    )
    there = with_backend(deployment, TEAM)

    with pytest.raises(TerraformError, match="secrets: expected s3://team"):
        refuse_former_states(there, ("secrets",), terraform_of(there))
    assert [moved.stack for moved in move_states(there, ("secrets",), terraform_of(there))] == ["secrets"]

    assert any("push" in call for call in calls(tmp_path))
    assert not file.exists()
    with pytest.raises(TerraformError, match=r"secrets: expected .*, found s3://team/frazil/dev/secrets\.tfstate"):
        refuse_former_states(deployment, ("secrets",), terraform_of(deployment))


@pytest.mark.parametrize(
    ("recorded", "backend"),
    [
        (s3("team", "eu-west-1"), TEAM),
        ({"type": "cloud", "config": {**CLOUD, "workspaces": {"name": "frazil-dev-lake", "project": "other"}}}, HCP),
        ({"type": "local", "config": {"path": "/a/former/checkout/state/lake.tfstate"}}, LocalState()),
        ({}, TEAM),
    ],
)
def test_other_settings_of_the_same_state_are_no_other_backend(
    deployment: Deployment, terraform_of: Any, tmp_path: Path, recorded: Mapping[str, Any], backend: Any
) -> None:
    record(deployment, recorded)
    there = with_backend(deployment, backend)

    refuse_former_states(there, ("lake",), terraform_of(there))

    assert calls(tmp_path) == []


@pytest.mark.parametrize(
    ("recorded", "backend", "found", "pulled"),
    [
        (s3("former"), TEAM, "s3://former/frazil/dev/lake.tfstate", "state pull former default"),
        (s3("former"), LocalState(), "s3://former/frazil/dev/lake.tfstate", "state pull former default"),
        (
            {"type": "cloud", "config": {**CLOUD, "organization": "former"}},
            HCP,
            "the workspace frazil-dev-lake of the organization former at app.terraform.io",
            "state pull former None",
        ),
    ],
)
@pytest.mark.parametrize("has_resources", [True, False])
def test_a_recorded_backend_is_left_only_without_its_state(
    deployment: Deployment,
    terraform_of: Any,
    tmp_path: Path,
    recorded: Mapping[str, Any],
    backend: Any,
    found: str,
    pulled: str,
    has_resources: bool,
) -> None:
    file, there = record(deployment, recorded), with_backend(deployment, backend)
    (tmp_path / "former").write_text(state(has_resources=has_resources))

    if not has_resources:
        refuse_former_states(there, ("lake",), terraform_of(there))
        return
    with pytest.raises(TerraformError, match="created a second time") as refused:
        refuse_former_states(there, ("lake",), terraform_of(there))
    assert f"found {found}" in refused.value.what
    assert pulled in calls(tmp_path)
    assert file.exists(), "the only record of the former backend"

    assert [moved.stack for moved in move_states(there, ("lake",), terraform_of(there))] == ["lake"]
    assert "former" not in file.read_text(), "it says where the state is now"
    assert "aws_vpc" not in (tmp_path / "log").read_text()


@pytest.mark.parametrize(
    ("now", "is_refused"),
    [
        (state(3), False),
        (state(4), False),
        (state(2), True),
        (state(1, "b"), False),
        (state(4, "b", id_="another"), True),
        ("", True),
    ],
)
def test_a_state_that_a_team_has_moved_and_changed_since_is_the_same_one(
    deployment: Deployment, terraform_of: Any, tmp_path: Path, now: str, is_refused: bool
) -> None:
    record(deployment, s3("former"))
    (tmp_path / "former").write_text(state(3))
    (tmp_path / "team").write_text(now)
    there = with_backend(deployment, TEAM)

    if not is_refused:
        refuse_former_states(there, ("lake",), terraform_of(there))
        return
    with pytest.raises(TerraformError, match="created a second time"):
        refuse_former_states(there, ("lake",), terraform_of(there))


def test_a_former_state_that_cannot_be_read_stops_the_run(deployment: Deployment, terraform_of: Any) -> None:
    file, there = record(deployment, s3("gone")), with_backend(deployment, TEAM)

    with pytest.raises(
        TerraformError, match=r"s3://gone/frazil/dev/lake\.tfstate, cannot be read: .*NoSuchB"
    ) as refused:
        refuse_former_states(there, ("lake",), terraform_of(there))
    assert f"delete {file}" in refused.value.hint

    file.write_text("{")
    with pytest.raises(TerraformError, match="is damaged"):
        refuse_former_states(there, ("lake",), terraform_of(there))


def test_no_command_gets_stacks_whose_states_are_elsewhere(
    deployment: Deployment, monkeypatch: pytest.MonkeyPatch, terraform_of: Any
) -> None:
    local_state(deployment, "network", state())
    monkeypatch.setattr("infra.deploy.stacks.deployed.build", lambda *_, **__: ("lake",))
    there = with_backend(deployment, TEAM)
    monkeypatch.setattr("infra.deploy.stacks.deployed.Stacks._terraform", lambda _, stack: terraform_of(there)(stack))

    with pytest.raises(TerraformError, match="network: expected s3://team"):
        synthesize(there, print)

    with pytest.raises(TerraformError, match="network: expected s3://team"):
        STEPS["move-states"](there, Asked((), keeps_data=False))


def test_a_cloud_that_decides_the_backend_has_no_former_one(deployment: Deployment, terraform_of: Any) -> None:
    record(deployment, s3("gone"))
    there = replace(deployment, profile=str(LOCAL.account))

    refuse_former_states(there, ("lake",), terraform_of(there))

    assert calls(deployment.checkout) == []
    with pytest.raises(TerraformError):
        refuse_former_states(deployment, ("lake",), terraform_of(deployment))


def test_the_copy_of_an_earlier_move_stays(deployment: Deployment, terraform_of: Any) -> None:
    file = local_state(deployment, "lake", state(3))
    earlier = file.with_name("lake.tfstate.moved")
    earlier.write_text("an earlier copy")

    list(move_states(with_backend(deployment, TEAM), ("lake",), terraform_of(deployment)))

    assert earlier.read_text() == "an earlier copy"
    assert file.with_name("lake.tfstate.moved-2").read_text() == state(3)


def test_the_newest_of_two_former_states_is_moved(deployment: Deployment, terraform_of: Any, tmp_path: Path) -> None:
    """As after a move that was killed before it renamed the local file: the recorded backend was used since."""
    file, note = local_state(deployment, "lake", state(3)), record(deployment, s3("former"))
    (tmp_path / "former").write_text(state(4, id_="vpc-2"))
    there = with_backend(deployment, TEAM)

    assert [moved.found for moved in move_states(there, ("lake",), terraform_of(there))] == [
        "s3://former/frazil/dev/lake.tfstate"
    ]

    assert json.loads((tmp_path / "team").read_text()) == json.loads(state(4, id_="vpc-2"))
    assert not file.exists()
    assert '"team"' in note.read_text()
    refuse_former_states(there, ("lake",), terraform_of(there))


def test_two_former_states_that_both_lack_something_are_refused(
    deployment: Deployment, terraform_of: Any, tmp_path: Path
) -> None:
    file, note = local_state(deployment, "lake", state(3)), record(deployment, s3("former"))
    (tmp_path / "former").write_text(state(4, "b", id_="vpc-2"))
    there, recorded = with_backend(deployment, TEAM), note.read_text()

    with pytest.raises(TerraformError, match="2 former states") as refused:
        list(move_states(there, ("lake",), terraform_of(there)))

    assert str(file) in refused.value.what
    assert "s3://former/frazil/dev/lake.tfstate" in refused.value.what
    assert file.exists()
    assert note.read_text() == recorded
    assert not any("push" in call for call in calls(tmp_path))


@pytest.mark.parametrize(("now", "is_refused"), [("old", True), ("new", False)])
def test_outputs_are_compared_by_their_values(
    deployment: Deployment, terraform_of: Any, tmp_path: Path, now: str, is_refused: bool
) -> None:
    def outputs(lineage: str, value: str) -> str:
        return json.dumps({"lineage": lineage, "serial": 1, "resources": [], "outputs": {"a": {"value": value}}})

    record(deployment, s3("former"))
    (tmp_path / "former").write_text(outputs("a", "new"))
    (tmp_path / "team").write_text(outputs("b", now))
    there = with_backend(deployment, TEAM)

    with pytest.raises(TerraformError) if is_refused else nullcontext():
        refuse_former_states(there, ("lake",), terraform_of(there))


def test_a_return_to_the_former_backend_is_initialised_again(deployment: Deployment, terraform_of: Any) -> None:
    """The providers and the note of the last `init` are still those of the former backend."""
    local_state(deployment, "lake", state())
    there = with_backend(deployment, TEAM)
    data = deployment.terraform_data("lake")
    (data / "providers/registry/hashicorp/aws/1/linux").mkdir(parents=True)
    record(deployment, {"type": "local", "config": {}})
    terraform = terraform_of(deployment)("lake")
    (data / ".terraform.lock.hcl").write_text("")
    (data / "initialised").write_text(_terraform_blocks(terraform.directory))
    assert Initialised(data).is_as(_terraform_blocks(terraform.directory))

    list(move_states(there, ("lake",), terraform_of(there)))

    assert not Initialised(data).is_as(_terraform_blocks(terraform_of(deployment)("lake").directory))


def test_a_record_of_a_backend_is_replaced_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "terraform.tfstate").write_bytes(b"{}")

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", killed)
        with pytest.raises(KeyboardInterrupt):
            Initialised(tmp_path).record_backend(b'{"backend": {}}')
    assert Initialised(tmp_path).backend.read_bytes() == b"{}"

    Initialised(tmp_path).record_backend(b'{"backend": {}}')
    assert Initialised(tmp_path).backend.read_bytes() == b'{"backend": {}}'
