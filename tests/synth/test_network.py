"""What is written for Terraform so that the job reaches a broker outside."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from every_feature import BACKENDS
from written import Written, dev, write

from frazil.specs.prices import read_prices
from infra.components.private_vpc import AddressPlan, plan_addresses
from infra.reports.costs import idle_costs
from infra.settings.model import Egress, ExistingVpc, MadeVpc, Network, PrivateLink
from infra.stacks.network import NetworkStack

MADE = MadeVpc(cidr="10.42.0.0/16", zones=2, nat_gateways="one")
EXISTING = ExistingVpc("vpc-1", ("subnet-1", "subnet-2"), ("rtb-1",))
DEFAULT = Egress((443, 9092), ("0.0.0.0/0",))
LINK = PrivateLink("com.amazonaws.vpce.us-east-1.vpce-svc-01", "us-east-1.aws.private.confluent.cloud")


def network(folder: Path, vpc: Any, *, egress: Egress = DEFAULT, privatelink: PrivateLink | None = None) -> Written:
    settings = dev(network=Network(vpc, egress, privatelink))
    return write(folder, settings, lambda app: NetworkStack(app, settings))["network"]


def reached(stack: Written) -> set[tuple[str, int, str]]:
    """Whence, by which port, whither."""
    rules = stack.of("aws_vpc_security_group_egress_rule").values()
    for rule in rules:
        assert (rule["ip_protocol"], rule["from_port"]) == ("tcp", rule["to_port"])
    return {
        (rule["security_group_id"], rule["from_port"], rule.get("cidr_ipv4") or rule["referenced_security_group_id"])
        for rule in rules
    }


def test_each_zone_has_an_eighth_and_the_last_one_is_for_gateways() -> None:
    assert plan_addresses(MADE) == AddressPlan(
        private={"a": "10.42.0.0/19", "b": "10.42.32.0/19"}, public={"a": "10.42.224.0/28"}
    )
    assert plan_addresses(MadeVpc("10.0.0.0/24", 2, "one_per_zone")) == AddressPlan(
        private={"a": "10.0.0.0/27", "b": "10.0.0.32/27"}, public={"a": "10.0.0.224/28", "b": "10.0.0.240/28"}
    )


def test_one_more_zone_moves_no_other() -> None:
    two, three = (plan_addresses(MadeVpc("10.42.0.0/16", zones, "one_per_zone")) for zones in (2, 3))

    assert two.private.items() < three.private.items()
    assert two.public.items() < three.public.items()


def test_private_subnets_in_two_zones_go_out_through_one_gateway(tmp_path: Path) -> None:
    stack = network(tmp_path, MADE)

    assert stack.types() == {
        "aws_default_security_group": 1,
        "aws_eip": 1,
        "aws_internet_gateway": 1,
        "aws_nat_gateway": 1,
        "aws_route": 3,
        "aws_route_table": 3,
        "aws_route_table_association": 3,
        "aws_security_group": 1,
        "aws_subnet": 3,
        "aws_vpc": 1,
        "aws_vpc_endpoint": 1,
        "aws_vpc_security_group_egress_rule": 2,
    }
    assert stack.of("aws_subnet") == {
        f"made/{word}": {
            "vpc_id": "{made/vpc.id}",
            "availability_zone": f"{{made/zones.names[{zone}]}}",
            "cidr_block": cidr,
            "tags": {"Name": f"frazil-dev-{word}"},
        }
        for word, zone, cidr in (
            ("private-a", 0, "10.42.0.0/19"),
            ("private-b", 1, "10.42.32.0/19"),
            ("public-a", 0, "10.42.224.0/28"),
        )
    }
    anywhere = {"destination_cidr_block": "0.0.0.0/0"}
    assert stack.of("aws_route") == {
        "made/public-a-out": {
            **anywhere,
            "route_table_id": "{made/public-a-routes.id}",
            "gateway_id": "{made/internet.id}",
        },
        **{
            f"made/private-{zone}-out": {
                **anywhere,
                "route_table_id": f"{{made/private-{zone}-routes.id}}",
                "nat_gateway_id": "{made/nat-a.id}",
            }
            for zone in "ab"
        },
    }
    assert {each["subnet_id"]: each["route_table_id"] for each in stack.of("aws_route_table_association").values()} == {
        f"{{made/{word}.id}}": f"{{made/{word}-routes.id}}" for word in ("private-a", "private-b", "public-a")
    }
    assert stack.one("aws_default_security_group") == {
        "vpc_id": "{made/vpc.id}",
        "tags": {"Name": "frazil-dev-unused"},
    }


def test_a_gateway_in_each_zone_serves_its_own_zone(tmp_path: Path) -> None:
    stack = network(tmp_path, MadeVpc("10.42.0.0/16", 2, "one_per_zone"))

    routes = stack.of("aws_route")
    assert {zone: routes[f"made/private-{zone}-out"]["nat_gateway_id"] for zone in "ab"} == {
        "a": "{made/nat-a.id}",
        "b": "{made/nat-b.id}",
    }
    assert {path: each["subnet_id"] for path, each in stack.of("aws_nat_gateway").items()} == {
        "made/nat-a": "{made/public-a.id}",
        "made/nat-b": "{made/public-b.id}",
    }
    assert stack.outputs["nat_addresses"] == ["{made/nat-a-address.public_ip}", "{made/nat-b-address.public_ip}"]


def test_zones_that_emr_serverless_or_a_plain_account_lacks_are_left_out(tmp_path: Path) -> None:
    (zones,) = network(tmp_path, MADE).document["data"]["aws_availability_zones"].values()

    assert zones["exclude_zone_ids"] == ["cac1-az4", "use1-az3"]
    assert zones["filter"] == {"name": "opt-in-status", "values": ["opt-in-not-required"]}


def test_the_bucket_is_reached_without_paying_the_gateway(tmp_path: Path) -> None:
    assert network(tmp_path, MADE).one("aws_vpc_endpoint") == {
        "vpc_id": "{made/vpc.id}",
        "vpc_endpoint_type": "Gateway",
        "service_name": "com.amazonaws.us-east-1.s3",
        "route_table_ids": ["{made/private-a-routes.id}", "{made/private-b-routes.id}"],
        "tags": {"Name": "frazil-dev-s3"},
    }


def test_an_existing_network_gets_a_security_group_and_a_way_to_s3(tmp_path: Path) -> None:
    stack = network(tmp_path, EXISTING)

    assert stack.types() == {
        "aws_security_group": 1,
        "aws_vpc_endpoint": 1,
        "aws_vpc_security_group_egress_rule": 2,
    }
    assert stack.one("aws_security_group")["vpc_id"] == "vpc-1"
    assert stack.one("aws_vpc_endpoint")["route_table_ids"] == ["rtb-1"]
    assert stack.outputs == {
        "aws_account_id": "{caller.account_id}",
        "subnet_ids": ["subnet-1", "subnet-2"],
        "security_group_ids": ["{job.id}"],
        "nat_addresses": [],
    }


def test_an_existing_network_that_has_a_way_to_s3_keeps_it(tmp_path: Path) -> None:
    assert "aws_vpc_endpoint" not in network(tmp_path, ExistingVpc("vpc-1", ("subnet-1",), ())).types()


def test_without_a_network_nothing_is_made(tmp_path: Path) -> None:
    stack = network(tmp_path, None)

    assert stack.types() == {}
    assert stack.outputs == {
        "aws_account_id": "{caller.account_id}",
        "subnet_ids": [],
        "security_group_ids": [],
        "nat_addresses": [],
    }


def test_others_get_what_a_job_needs_to_be_placed(tmp_path: Path) -> None:
    settings = dev(network=Network(EXISTING, DEFAULT, None))
    found = []

    write(tmp_path, settings, lambda app: found.append(NetworkStack(app, settings)))

    assert found[0].subnet_ids == ["subnet-1", "subnet-2"]
    assert len(found[0].security_group_ids) == 1


@pytest.mark.parametrize(
    ("egress", "rules"),
    [
        (DEFAULT, {(443, "0.0.0.0/0"), (9092, "0.0.0.0/0")}),
        (
            Egress((9098, 8443), ("10.1.0.0/16", "10.2.0.0/16")),
            {(443, "0.0.0.0/0")} | {(port, f"10.{net}.0.0/16") for port in (9098, 8443) for net in (1, 2)},
        ),
        (Egress((443,), ("10.1.0.0/16",)), {(443, "0.0.0.0/0"), (443, "10.1.0.0/16")}),
    ],
)
def test_the_job_reaches_brokers_and_registry_where_they_are_and_aws(
    tmp_path: Path, egress: Egress, rules: set[tuple[int, str]]
) -> None:
    assert reached(network(tmp_path, EXISTING, egress=egress)) == {("{job.id}", *rule) for rule in rules}


@pytest.mark.parametrize("vpc", [MADE, EXISTING])
def test_nobody_gets_in_from_outside(tmp_path: Path, vpc: MadeVpc | ExistingVpc) -> None:
    stack = network(tmp_path, vpc, privatelink=LINK)

    ingress = stack.of("aws_vpc_security_group_ingress_rule").values()
    assert all(rule["referenced_security_group_id"] == "{job.id}" for rule in ingress)
    assert {rule["security_group_id"] for rule in ingress} == {"{privatelink.id}"}
    assert not any({"ingress", "egress"} & set(group) for group in stack.of("aws_security_group").values())


def test_privatelink_leads_every_name_of_the_domain_to_its_endpoint(tmp_path: Path) -> None:
    stack = network(tmp_path, EXISTING, egress=Egress((9092, 443), ("10.1.0.0/16",)), privatelink=LINK)

    assert stack.of("aws_vpc_endpoint")["brokers"] == {
        "vpc_id": "vpc-1",
        "vpc_endpoint_type": "Interface",
        "service_name": LINK.service,
        "subnet_ids": ["subnet-1", "subnet-2"],
        "security_group_ids": ["{privatelink.id}"],
        "private_dns_enabled": False,
        "tags": {"Name": "frazil-dev-brokers"},
    }
    assert stack.one("aws_route53_zone")["vpc"] == {"vpc_id": "vpc-1"}
    assert stack.one("aws_route53_record") == {
        "zone_id": "{domain.zone_id}",
        "name": "*.us-east-1.aws.private.confluent.cloud",
        "type": "CNAME",
        "ttl": 60,
        "records": ["{brokers.dns_entry[0].dns_name}"],
    }
    assert {("{job.id}", port, "{privatelink.id}") for port in (443, 9092)} < reached(stack)
    ingress = stack.of("aws_vpc_security_group_ingress_rule").values()
    assert {(rule["from_port"], rule["to_port"]) for rule in ingress} == {(443, 443), (9092, 9092)}


def test_a_service_with_names_of_its_own_needs_no_zone(tmp_path: Path) -> None:
    stack = network(tmp_path, EXISTING, privatelink=PrivateLink(LINK.service, None))

    assert stack.of("aws_vpc_endpoint")["brokers"]["private_dns_enabled"] is True
    assert "aws_route53_zone" not in stack.types()


@pytest.mark.parametrize(
    ("vpc", "privatelink", "paid"),
    [
        (None, None, []),
        (EXISTING, None, []),
        (MADE, None, [("NAT gateway", 1), ("public IPv4 address", 1)]),
        (MadeVpc("10.42.0.0/16", 3, "one_per_zone"), None, [("NAT gateway", 3), ("public IPv4 address", 3)]),
        (EXISTING, LINK, [("interface endpoint in a zone", 2), ("private zone", 1)]),
    ],
)
def test_what_it_costs_while_nothing_runs_is_counted(
    tmp_path: Path, vpc: Any, privatelink: PrivateLink | None, paid: list[tuple[str, int]]
) -> None:
    stack = network(tmp_path, vpc, privatelink=privatelink)

    lines = idle_costs({"network": stack.document}, read_prices())

    assert [(line.name, line.count) for line in lines] == paid
    assert all(line.monthly > 0 for line in lines)


def test_a_nat_instance_forwards_in_place_of_a_gateway(tmp_path: Path) -> None:
    stack = network(tmp_path, replace(MADE, nat="instance"))

    assert "aws_nat_gateway" not in stack.types()
    machine = stack.one("aws_instance")
    assert (machine["source_dest_check"], machine["root_block_device"]["encrypted"]) == (False, True)
    assert machine["metadata_options"] == {"http_tokens": "required"}
    assert "MASQUERADE" in machine["user_data"]
    assert machine["user_data_replace_on_change"] is True
    assert machine["user_data"].index("swapon") < machine["user_data"].index("dnf install")
    assert stack.of("aws_eip").keys() == {"made/nat-a-instance-address"}, "not the address of a NAT gateway"
    (ingress,) = stack.of("aws_vpc_security_group_ingress_rule").values()
    assert ingress["cidr_ipv4"] == MADE.cidr
    assert {path: route.get("network_interface_id") for path, route in stack.of("aws_route").items()} == {
        "made/public-a-out": None,
        "made/private-a-out": "{made/nat-a/machine.primary_network_interface_id}",
        "made/private-b-out": "{made/nat-a/machine.primary_network_interface_id}",
    }
    monthly = sum(line.monthly for line in idle_costs({"network": stack.document}, read_prices()))
    assert 7 < monthly < 8


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_state_lies_where_the_environment_says(tmp_path: Path, backend: str) -> None:
    settings = dev(backend=BACKENDS[backend])

    terraform = write(tmp_path, settings, lambda app: NetworkStack(app, settings))["network"].document["terraform"]

    expected = {
        "local": {"backend": {"local": {"path": "../../../state/network.tfstate"}}},
        "s3": {
            "backend": {
                "s3": {
                    "bucket": "acme-states",
                    "key": "frazil/dev/network.tfstate",
                    "region": "eu-west-1",
                    "encrypt": True,
                    "use_lockfile": True,
                }
            }
        },
        "cloud": {
            "cloud": {
                "organization": "acme",
                "hostname": "app.terraform.io",
                "workspaces": {"name": "frazil-dev-network", "project": "lake"},
            }
        },
    }
    assert {name: each for name, each in terraform.items() if name != "required_providers"} == expected[backend]
