"""The network of the job: EMR Serverless reaches outside brokers only from private subnets with NAT.

No security group here allows incoming traffic, except that the PrivateLink endpoint accepts the job's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import assert_never

from infra.cdk import App, Output, Stack
from infra.components.backends import keep_state
from infra.components.private_vpc import ANYWHERE, PrivateVpc, named
from infra.components.region import enter_region
from infra.resources import aws
from infra.settings.model import EnvironmentSettings, ExistingVpc, MadeVpc, PrivateLink
from shared import naming

HTTPS = 443


@dataclass(frozen=True, slots=True)
class Subnets:
    """The job's subnets in a VPC. `route_table_ids`: the route tables that need a route to S3."""

    vpc_id: str
    subnet_ids: list[str]
    route_table_ids: list[str]
    nat_addresses: list[str]


class NetworkStack(Stack):
    """The stack of the network. The job's `subnet_ids` and `security_group_ids` are empty if it has no VPC."""

    subnet_ids: list[str]
    security_group_ids: list[str]

    def __init__(self, app: App, settings: EnvironmentSettings) -> None:
        super().__init__(app, "network")
        keep_state(self, settings)
        self._region = enter_region(self, settings)
        self._settings = settings
        place = self._place()
        self.subnet_ids = place.subnet_ids if place else []
        self.security_group_ids = [self._open(place)] if place else []
        self._outputs(place.nat_addresses if place else [])

    def _place(self) -> Subnets | None:
        match self._settings.network.vpc:
            case None:
                return None
            case ExistingVpc(vpc_id, subnets, route_tables):
                return Subnets(vpc_id, list(subnets), list(route_tables), [])
            case MadeVpc() as wanted:
                made = PrivateVpc(self, "made", wanted, environment=self._settings.environment)
                return Subnets(made.id, made.subnet_ids, made.route_table_ids, made.nat_addresses)
            case _ as unknown:
                assert_never(unknown)

    def _open(self, place: Subnets) -> str:
        """Create the security group with what the job may reach."""
        if place.route_table_ids:
            self._way_to_s3(place)
        job = self._group("job", place, "Job runs of Frazil: out to brokers, registry and AWS")
        egress = self._settings.network.egress
        wanted = {(HTTPS, ANYWHERE), *((port, cidr) for port in egress.ports for cidr in egress.cidrs)}
        for port, cidr in sorted(wanted):
            where = "anywhere" if cidr == ANYWHERE else cidr.replace(".", "-").replace("/", "-")
            self._let_out(f"out-{port}-{where}", job, port, cidr=cidr)
        link = self._settings.network.privatelink
        if link is not None:
            self._privatelink(link, place, job)
        return job.id

    def _way_to_s3(self, place: Subnets) -> None:
        """Create the free gateway endpoint for S3; without it, NAT bills all traffic of the bucket."""
        aws.VpcEndpoint(
            self,
            "s3",
            vpc_id=place.vpc_id,
            vpc_endpoint_type="Gateway",
            service_name=f"com.amazonaws.{self._settings.region}.s3",
            route_table_ids=place.route_table_ids,
            tags=self._named("s3"),
        )

    def _privatelink(self, link: PrivateLink, place: Subnets, job: aws.SecurityGroup) -> None:
        group = self._group("privatelink", place, "The endpoint of the brokers: in from job runs of Frazil")
        for port in self._settings.network.egress.ports:
            self._let_out(f"to-brokers-{port}", job, port, group_id=group.id)
            self._let_in(f"from-job-{port}", group, port, group_id=job.id)
        endpoint = aws.VpcEndpoint(
            self,
            "brokers",
            vpc_id=place.vpc_id,
            vpc_endpoint_type="Interface",
            service_name=link.service,
            subnet_ids=place.subnet_ids,
            security_group_ids=[group.id],
            private_dns_enabled=link.domain is None,
            tags=self._named("brokers"),
        )
        if link.domain is not None:
            self._lead_there(link.domain, endpoint, place)

    def _lead_there(self, domain: str, endpoint: aws.VpcEndpoint, place: Subnets) -> None:
        """Resolve every name of the domain to the endpoint, which distinguishes brokers by their name in TLS."""
        zone = aws.Route53Zone(
            self,
            "domain",
            name=domain,
            comment="The brokers behind PrivateLink",
            vpc=aws.Route53Zone_Vpc(vpc_id=place.vpc_id),
            tags=self._named("domain"),
        )
        aws.Route53Record(
            self,
            "every-name",
            zone_id=zone.zone_id,
            name=f"*.{domain}",
            type="CNAME",
            ttl=60,
            records=[endpoint.ref("dns_entry[0].dns_name")],
        )

    def _group(self, word: str, place: Subnets, description: str) -> aws.SecurityGroup:
        name = naming.resource_name(self._settings.environment, word)
        return aws.SecurityGroup(
            self, word, name=name, description=description, vpc_id=place.vpc_id, tags=self._named(word)
        )

    def _let_out(
        self,
        word: str,
        of: aws.SecurityGroup,
        port: int,
        *,
        cidr: str | None = None,
        group_id: str | None = None,
    ) -> None:
        aws.VpcSecurityGroupEgressRule(
            self,
            word,
            security_group_id=of.id,
            ip_protocol="tcp",
            from_port=port,
            to_port=port,
            cidr_ipv4=cidr,
            referenced_security_group_id=group_id,
            tags=self._named(word),
        )

    def _let_in(self, word: str, of: aws.SecurityGroup, port: int, *, group_id: str) -> None:
        aws.VpcSecurityGroupIngressRule(
            self,
            word,
            security_group_id=of.id,
            ip_protocol="tcp",
            from_port=port,
            to_port=port,
            referenced_security_group_id=group_id,
            tags=self._named(word),
        )

    def _named(self, word: str) -> dict[str, str]:
        return named(self._settings.environment, word)

    def _outputs(self, nat_addresses: list[str]) -> None:
        Output(
            self,
            "aws_account_id",
            value=self._region.account_id,
            description="The account of this state; other machines compare it with that of their profile",
        )
        Output(self, "subnet_ids", value=self.subnet_ids)
        Output(self, "security_group_ids", value=self.security_group_ids)
        Output(
            self,
            "nat_addresses",
            value=nat_addresses,
            description="Where the job comes from, for the list of addresses that brokers and registry let in",
        )
