"""Two stacks that use every part of the typed layer; `python every_feature.py OUT BACKEND` writes them."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

from infra.cdk import App, Construct, Fn, Output, Stack
from infra.components.backends import keep_state
from infra.guards.aspect import synthesize
from infra.permissions.iam import Policy, Statement, trust_service
from infra.resources import aws, confluent
from infra.settings.file import load_environment
from infra.settings.model import EnvironmentSettings, HcpState, LocalState, S3State
from shared.naming import tags

BACKENDS: dict[str, LocalState | S3State | HcpState] = {
    "local": LocalState(),
    "s3": S3State("acme-states", "eu-west-1"),
    "cloud": HcpState("acme", "lake", "app.terraform.io"),
}


class Reader(Construct):
    """A component: what is inside has its name in front."""

    def __init__(self, scope: Construct, construct_id: str, *, topic: aws.SnsTopic) -> None:
        super().__init__(scope, construct_id)
        policy = Policy((Statement(actions=("sns:Publish",), resources=(topic.arn,)),))
        self.role = aws.IamRole(
            self, "role", name="reader", assume_role_policy=trust_service("lambda.amazonaws.com").json
        )
        self.policy = aws.IamRolePolicy(self, "policy", role=self.role.id, policy=policy.json)


class First(Stack):
    def __init__(self, app: App, settings: EnvironmentSettings) -> None:
        super().__init__(app, "first")
        keep_state(self, settings)
        aws.Provider(
            self, "aws", region="eu-west-1", default_tags=aws.Provider_DefaultTags(tags=tags("dev", "first", {}))
        )
        tagged = [aws.Provider_DefaultTags(tags=tags("dev", "first", {}))]
        elsewhere = aws.Provider(self, "elsewhere", alias="elsewhere", region="us-east-1", default_tags=tagged)
        confluent.Provider(self, "confluent")
        self.zones = aws.DataAvailabilityZones(self, "zones", state="available")
        self.topic = aws.SnsTopic(self, "topic", name="alarms", kms_master_key_id="alias/aws/sns", prevent_destroy=True)
        self.reader = Reader(self, "reader", topic=self.topic)
        self.endpoint = aws.VpcEndpoint(
            self, "endpoint", vpc_id="vpc-1", service_name="s3", route_table_ids=["rtb-1"], provider=elsewhere
        )
        governance = confluent.Environment_StreamGovernance(package="ESSENTIALS")
        environment = confluent.Environment(self, "environment", display_name="dev", stream_governance=governance)
        self.integration = confluent.ProviderIntegration(
            self,
            "integration",
            display_name="s3",
            environment=confluent.ProviderIntegration_Environment(id=environment.id),
            aws=confluent.ProviderIntegration_Aws(customer_role_arn=self.reader.role.arn),
            depends_on=[self.reader.policy],
        )
        confluent.Connector(
            self,
            "connector",
            environment=confluent.Connector_Environment(id=environment.id),
            kafka_cluster=confluent.Connector_KafkaCluster(id="lkc-1"),
            config_nonsensitive={"connector.class": "DatagenSource", "name": "trades", "kafka.topic": "stock_trades"},
        )
        Output(self, "reader_role", value=self.reader.role.arn, description="Who reads.")


class Second(Stack):
    def __init__(self, app: App, settings: EnvironmentSettings, *, first: First) -> None:
        super().__init__(app, "second")
        keep_state(self, settings)
        aws.Provider(
            self, "aws", region="eu-west-1", default_tags=aws.Provider_DefaultTags(tags=tags("dev", "second", {}))
        )
        queue = aws.SqsQueue(self, "queue", name="dead", sqs_managed_sse_enabled=True, create_before_destroy=True)
        aws.Subnet(
            self,
            "subnet",
            vpc_id=Fn.replace(first.topic.name, "-", "_"),
            availability_zone=first.zones.ref("names[0]"),
            tags={"trusted": first.integration.ref("aws[0].external_id"), "kafka.auth.mode": "kept_as_it_is"},
            ignore_changes=["tags"],
            replace_triggered_by=[queue],
        )
        aws.VpcEndpoint(
            self,
            "endpoint",
            vpc_id="vpc-1",
            service_name="sqs",
            subnet_ids=first.endpoint.subnet_ids,
            security_group_ids=[first.reader.role.name, queue.url],
            private_dns_enabled=False,
            count=1,
            ignore_changes="all",
        )


def write(out: Path, backend: str) -> None:
    settings = replace(load_environment("dev", {}), backend=BACKENDS[backend])
    app = App(outdir=str(out))
    Second(app, settings, first=First(app, settings))
    synthesize(app, production=False)


if __name__ == "__main__":
    write(Path(sys.argv[1]), sys.argv[2])
