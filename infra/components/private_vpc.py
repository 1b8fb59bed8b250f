"""A VPC that reaches the internet through NAT and cannot be reached from it."""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import IPv4Network
from string import ascii_lowercase

from infra.cdk import Construct
from infra.components.nat_instance import NatInstance
from infra.resources import aws
from infra.settings.model import MadeVpc
from shared import naming

ANYWHERE = "0.0.0.0/0"
ZONES_WITHOUT_EMR_SERVERLESS = ("cac1-az4", "use1-az3")
"""Of regions where it is not everywhere (EMR Serverless User Guide, endpoints and quotas, read in November 2026)."""


@dataclass(frozen=True, slots=True)
class AddressPlan:
    """CIDR blocks by the letter of their zone. Public subnets hold only a NAT gateway or instance."""

    private: dict[str, str]
    public: dict[str, str]


@dataclass(frozen=True, slots=True)
class WayOut:
    """The target of private subnets' default routes: a NAT gateway, or the network interface of a NAT instance."""

    gateway_id: str | None = None
    interface_id: str | None = None


def plan_addresses(wanted: MadeVpc) -> AddressPlan:
    """Plan the subnets: an eighth of the VPC for each zone's workers, so that another zone moves no existing subnet."""
    *eighths, last = IPv4Network(wanted.cidr).subnets(prefixlen_diff=3)
    letters = ascii_lowercase[: wanted.zones]
    gateways = letters[:1] if wanted.nat_gateways == "one" else letters
    smallest = last.subnets(new_prefix=28)
    return AddressPlan(
        private={letter: str(network) for letter, network in zip(letters, eighths, strict=False)},
        public={letter: str(network) for letter, network in zip(gateways, smallest, strict=False)},
    )


class PrivateVpc(Construct):
    """A VPC with one private subnet per zone, routed through NAT, and a default security group without rules."""

    def __init__(self, scope: Construct, construct_id: str, /, wanted: MadeVpc, *, environment: str) -> None:
        super().__init__(scope, construct_id)
        self._environment = environment
        called = self._called("vpc")
        vpc = aws.Vpc(
            self, "vpc", cidr_block=wanted.cidr, enable_dns_support=True, enable_dns_hostnames=True, tags=called
        )
        self.id = vpc.id
        self._zones = self._zones_of_the_region()
        self.nat_addresses: list[str] = []
        self.subnet_ids: list[str] = []
        self.route_table_ids: list[str] = []
        aws.DefaultSecurityGroup(self, "default-group", vpc_id=self.id, tags=self._called("unused"))
        plan = plan_addresses(wanted)
        ways_out = self._ways_out(plan.public, wanted)
        for index, (letter, cidr) in enumerate(plan.private.items()):
            self._private(index, letter, cidr, way_out=ways_out[index % len(ways_out)])

    def _zones_of_the_region(self) -> aws.DataAvailabilityZones:
        """Return the region's availability zones, without local zones, which an account must opt into."""
        regular = aws.DataAvailabilityZones_Filter(name="opt-in-status", values=["opt-in-not-required"])
        return aws.DataAvailabilityZones(
            self, "zones", state="available", exclude_zone_ids=ZONES_WITHOUT_EMR_SERVERLESS, filter=regular
        )

    def _ways_out(self, public: dict[str, str], wanted: MadeVpc) -> list[WayOut]:
        gateway = aws.InternetGateway(self, "internet", vpc_id=self.id, tags=self._called("internet"))
        found = list[WayOut]()
        for index, (letter, cidr) in enumerate(public.items()):
            subnet, route = self._public(index, letter, cidr, gateway)
            if wanted.nat == "instance":
                found.append(self._by_instance(letter, subnet, route, inside=wanted.cidr))
            else:
                found.append(self._by_gateway(letter, subnet, route, gateway))
        return found

    def _public(self, index: int, letter: str, cidr: str, gateway: aws.InternetGateway) -> tuple[aws.Subnet, aws.Route]:
        subnet, table = self._subnet(f"public-{letter}", index, cidr)
        route = aws.Route(
            self,
            f"public-{letter}-out",
            route_table_id=table.id,
            destination_cidr_block=ANYWHERE,
            gateway_id=gateway.id,
        )
        return subnet, route

    def _by_instance(self, letter: str, subnet: aws.Subnet, route: aws.Route, *, inside: str) -> WayOut:
        """Create the instance with an address of its own: that of a NAT gateway cannot be taken while it exists."""
        called = self._called(f"nat-{letter}")
        made = NatInstance(
            self,
            f"nat-{letter}",
            vpc_id=self.id,
            subnet_id=subnet.id,
            inside=inside,
            tags=called,
            ready=route,
        )
        address = aws.Eip(
            self, f"nat-{letter}-instance-address", domain="vpc", instance=made.id, tags=called, depends_on=[route]
        )
        self.nat_addresses.append(address.public_ip)
        return WayOut(interface_id=made.interface_id)

    def _by_gateway(self, letter: str, subnet: aws.Subnet, route: aws.Route, gateway: aws.InternetGateway) -> WayOut:
        called = self._called(f"nat-{letter}")
        address = aws.Eip(self, f"nat-{letter}-address", domain="vpc", tags=called, depends_on=[gateway])
        self.nat_addresses.append(address.public_ip)
        made = aws.NatGateway(
            self,
            f"nat-{letter}",
            subnet_id=subnet.id,
            allocation_id=address.allocation_id,
            tags=called,
            depends_on=[route],
        )
        return WayOut(gateway_id=made.id)

    def _private(self, index: int, letter: str, cidr: str, *, way_out: WayOut) -> None:
        subnet, table = self._subnet(f"private-{letter}", index, cidr)
        aws.Route(
            self,
            f"private-{letter}-out",
            route_table_id=table.id,
            destination_cidr_block=ANYWHERE,
            nat_gateway_id=way_out.gateway_id,
            network_interface_id=way_out.interface_id,
        )
        self.subnet_ids.append(subnet.id)
        self.route_table_ids.append(table.id)

    def _subnet(self, name: str, index: int, cidr: str) -> tuple[aws.Subnet, aws.RouteTable]:
        zone = self._zones.ref(f"names[{index}]")
        called = self._called(name)
        subnet = aws.Subnet(self, name, vpc_id=self.id, availability_zone=zone, cidr_block=cidr, tags=called)
        table = aws.RouteTable(self, f"{name}-routes", vpc_id=self.id, tags=called)
        aws.RouteTableAssociation(self, f"{name}-uses", subnet_id=subnet.id, route_table_id=table.id)
        return subnet, table

    def _called(self, word: str) -> dict[str, str]:
        return named(self._environment, word)


def named(environment: str, word: str) -> dict[str, str]:
    """Return the `Name` tag, which is the only name of network resources."""
    return {"Name": naming.resource_name(environment, word)}
