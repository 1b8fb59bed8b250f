"""A NAT instance: a small virtual machine in place of a NAT gateway, at a tenth of its price.

It is one machine: if it fails, nothing behind it gets out until it is replaced, and its bandwidth is that of its type.
It runs no agent and allows no login, so it is patched by replacing it (docs/deploy.md).
"""

from __future__ import annotations

from collections.abc import Mapping

from infra.cdk import Construct, Resource
from infra.resources import aws

TYPE = "t4g.nano"
DISK_GB = 8
IMAGE = "/aws/service/ami-amazon-linux-latest/al2023-ami-kernel-default-arm64"
"""The newest Amazon Linux 2023, as AWS keeps it in a public parameter."""
FORWARD = """#!/bin/bash
set -euxo pipefail
echo 'net.ipv4.ip_forward = 1' > /etc/sysctl.d/90-nat.conf
sysctl --system
dd if=/dev/zero of=/swapfile bs=1M count=1024
chmod 600 /swapfile
mkswap /swapfile
swapon /swapfile
echo '/swapfile none swap defaults 0 0' >> /etc/fstab
until dnf install -y iptables-services; do sleep 5; done
outside=$(ip -o -4 route show to default | awk '{print $5; exit}')
iptables -F FORWARD
iptables -t nat -A POSTROUTING -o "$outside" -j MASQUERADE
iptables-save > /etc/sysconfig/iptables
systemctl enable --now iptables
"""
"""As the documentation of VPC has it for NAT instances. The loop waits for its address.

dnf needs more memory than the 512 MB of this type, so the script adds swap.
"""


class NatInstance(Construct):
    """An instance in a public subnet, with its own address. `interface_id`: the target of private subnets' routes."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        /,
        *,
        vpc_id: str,
        subnet_id: str,
        inside: str,
        tags: Mapping[str, str],
        ready: Resource,
    ) -> None:
        super().__init__(scope, construct_id)
        group = self._group(vpc_id, inside, tags)
        image = aws.DataSsmParameter(self, "image", name=IMAGE)
        instance = aws.Instance(
            self,
            "machine",
            ami=image.insecure_value,
            instance_type=TYPE,
            subnet_id=subnet_id,
            vpc_security_group_ids=[group.id],
            source_dest_check=False,
            user_data=FORWARD,
            user_data_replace_on_change=True,
            metadata_options=aws.Instance_MetadataOptions(http_tokens="required"),
            root_block_device=aws.Instance_RootBlockDevice(
                encrypted=True, volume_type="gp3", volume_size=DISK_GB, tags=tags
            ),
            credit_specification=aws.Instance_CreditSpecification(cpu_credits="standard"),
            tags=tags,
            depends_on=[ready],
            ignore_changes=["ami"],
        )
        self.id = instance.id
        self.interface_id = instance.primary_network_interface_id

    def _group(self, vpc_id: str, inside: str, tags: Mapping[str, str]) -> aws.SecurityGroup:
        group = aws.SecurityGroup(
            self,
            "group",
            name=tags["Name"],
            description="NAT of Frazil: in from the VPC, out to anywhere",
            vpc_id=vpc_id,
            tags=tags,
        )
        aws.VpcSecurityGroupIngressRule(
            self, "from-inside", security_group_id=group.id, ip_protocol="-1", cidr_ipv4=inside, tags=tags
        )
        aws.VpcSecurityGroupEgressRule(
            self, "to-anywhere", security_group_id=group.id, ip_protocol="-1", cidr_ipv4="0.0.0.0/0", tags=tags
        )
        return group
