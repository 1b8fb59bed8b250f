"""Where Terraform is sent for providers, and what a stack's folder gets for the local cloud."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from infra.terraform.environment import STUBS, stub_values, terraform_environment
from infra.terraform.override import FILE, ready_to_travel, write_override
from infra.terraform.provider_sources import Method, configured, mirror, on_this_machine

AWS = "registry.terraform.io/hashicorp/aws"
HERE = {"XDG_DATA_DIRS": "/nonexistent"}


def made(folder: Path, provider: str = AWS) -> Path:
    (folder / provider / "5.100.0").mkdir(parents=True)
    return folder


def sources(tmp_path: Path, environment: dict[str, str] | None = None) -> list[Method]:
    return on_this_machine(HERE | (environment or {}), tmp_path / "home", needed=[AWS], root=tmp_path)


def test_without_a_mirror_everything_comes_from_the_network(tmp_path: Path) -> None:
    assert sources(tmp_path) == [Method("direct")]


def test_a_mirror_that_terraform_knows_itself_is_used(tmp_path: Path) -> None:
    known = made(tmp_path / "home" / ".terraform.d" / "plugins")
    made(tmp_path / "opt" / "plugins")

    assert sources(tmp_path) == [mirror(known), Method("direct", exclude=(AWS,))]


@pytest.mark.parametrize("named", ["mirror", "mirror/registry.terraform.io"])
def test_a_mirror_that_the_environment_names_is_used(tmp_path: Path, named: str) -> None:
    ours = made(tmp_path / "mirror")

    found = sources(tmp_path, {"FRAZIL_PLUGIN_MIRROR": str(tmp_path / named)})

    assert found == [mirror(ours), Method("direct", exclude=(AWS,))]


def test_a_mirror_in_a_usual_place_is_found_where_nothing_standard_has_the_provider(tmp_path: Path) -> None:
    lies = made(tmp_path / "opt" / "some" / "plugins")

    assert sources(tmp_path) == [mirror(lies), Method("direct", exclude=(AWS,))]


USERS = """
# how we do it
credentials "app.terraform.io" { token = "hidden" }
provider_installation {
  # filesystem_mirror { path = "/commented-out" }
  filesystem_mirror {
    path    = "/srv/mirror"
    include = ["registry.terraform.io/hashicorp/*", "registry.terraform.io/confluentinc/*"]
  }
  direct { exclude = ["registry.terraform.io/hashicorp/*"] }
}
"""


def test_stand_ins_are_added_to_what_the_user_has_configured(tmp_path: Path) -> None:
    users = tmp_path / "users.rc"
    users.write_text(USERS)

    added = terraform_environment({"TF_CLI_CONFIG_FILE": str(users)}, tmp_path / "ours", stubs=("confluent",))

    ours = Path(added["TF_CLI_CONFIG_FILE"])
    assert "hidden" not in ours.read_text()
    stub = "registry.terraform.io/confluentinc/confluent"
    assert configured(added, tmp_path) == [
        mirror(tmp_path / "ours" / "stubs", include=[stub]),
        Method(
            "filesystem_mirror",
            "/srv/mirror",
            include=("registry.terraform.io/hashicorp/*", "registry.terraform.io/confluentinc/*"),
            exclude=(stub,),
        ),
        Method("direct", exclude=("registry.terraform.io/hashicorp/*", stub)),
    ]


def test_for_a_real_cloud_the_users_configuration_stays(tmp_path: Path) -> None:
    users = tmp_path / "users.rc"
    users.write_text("disable_checkpoint = true\n")

    added = terraform_environment({"TF_CLI_CONFIG_FILE": str(users)}, tmp_path / "ours")

    assert "TF_CLI_CONFIG_FILE" not in added


def test_a_configuration_that_is_not_there_is_replaced(tmp_path: Path) -> None:
    environment = HERE | {"TF_CLI_CONFIG_FILE": str(tmp_path / "gone"), "HOME": str(tmp_path)}

    added = terraform_environment(environment, tmp_path / "ours")

    assert Path(added["TF_CLI_CONFIG_FILE"]).is_file()


def test_a_stand_in_is_a_provider_in_a_mirror(tmp_path: Path) -> None:
    terraform_environment(HERE | {"HOME": str(tmp_path)}, tmp_path, stubs=STUBS)

    scripts = {path.name for path in (tmp_path / "stubs").rglob("terraform-provider-*")}

    assert scripts == {"terraform-provider-confluent_v2.83.0", "terraform-provider-snowflake_v2.20.0"}


def test_a_value_of_a_stand_in_is_a_variable() -> None:
    assert stub_values("confluent_kafka_cluster", bootstrap_endpoint="PLAINTEXT://here") == {
        "FRAZIL_STUB_CONFLUENT_KAFKA_CLUSTER__BOOTSTRAP_ENDPOINT": "PLAINTEXT://here"
    }


def test_only_a_stack_with_the_provider_of_aws_is_configured_for_the_double(tmp_path: Path) -> None:
    jobs, confluent = tmp_path / "jobs", tmp_path / "confluent"
    for directory, providers in ((jobs, {"aws": [{}]}), (confluent, {"confluent": [{}]})):
        directory.mkdir()
        (directory / "cdk.tf.json").write_text(json.dumps({"provider": providers}))
        write_override(directory)

    assert json.loads((jobs / FILE).read_text())["provider"]["aws"]["max_retries"] == 2
    assert not (confluent / FILE).exists()
    ready_to_travel(jobs)
    assert not (jobs / FILE).exists()
