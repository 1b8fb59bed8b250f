"""The steps of `delete`. Each can be repeated: it does what is left to do."""

from __future__ import annotations

from infra.deploy.accounts import account_record
from infra.deploy.accounts.snowflake_account import forget
from infra.deploy.asked import Asked
from infra.deploy.console import tell
from infra.deploy.deleting.delete_report import DeleteReport, ask_for_name, refuse_in_production
from infra.deploy.deleting.emptying import empty_bucket, remove_databases, remove_log_groups, remove_roles
from infra.deploy.deployment import Deployment
from infra.deploy.kafka.accounts_and_topics import cloud_of, delete_all_keys
from infra.deploy.stacks.removed import refuse_removed_stacks
from infra.deploy.tables.client_files import delete_client_files


def confirm(deployment: Deployment, asked: Asked) -> None:
    refuse_removed_stacks(deployment, asked.readable(deployment).names, asked.session)
    _delete_report(deployment, asked).confirm(keeps_data=asked.keeps_data)


def destroy(deployment: Deployment, asked: Asked) -> None:
    stays = {"lake"} if asked.keeps_data else set()
    stacks = asked.synthesis.stacks(deployment, purpose="destroy")
    stacks.destroy([name for name in asked.stacks if name not in stays])
    if asked.keeps_data and "confluent" in asked.stacks and _database_goes_with_the_cluster(deployment):
        stacks.forget("lake", "aws_glue_catalog_database")
    if asked.stacks == ("snowflake",):
        _forget_snowflake(deployment)


def _forget_snowflake(deployment: Deployment) -> None:
    """Forget the account of a stack that was destroyed alone, so that the next `create` does not make it again."""
    if deployment.snowflake_is_given:
        tell("snowflake: the account is forgotten; to attach it again, run `create --snowflake-warehouse=…`")
    forget(deployment.folder)
    _tell_of_the_section(deployment)


def delete_keys(deployment: Deployment, asked: Asked) -> None:
    """Delete all API keys; do nothing if the service accounts no longer exist."""
    confluent = asked.readable(deployment).outputs("confluent")
    if confluent:
        tell(f"keys: {delete_all_keys(deployment, confluent, tell)} deleted")


def empty(deployment: Deployment, asked: Asked) -> None:
    """Empty the bucket and delete the Glue databases, before the stack lake is destroyed.

    Raises SettingError in production.
    """
    refuse_in_production(deployment)
    stacks = asked.readable(deployment)
    bucket, cluster = stacks.outputs("lake").get("bucket_name"), stacks.outputs("confluent").get("cluster_id", "")
    if bucket is None or asked.keeps_data:
        return
    removed = empty_bucket(asked.session().client("s3"), bucket, lambda _: None)
    tell(f"s3://{bucket}: {removed} object versions deleted")
    for name in remove_databases(asked.session().client("glue"), bucket, cluster=cluster):
        tell(f"Glue database {name}: deleted, with its tables")


def inventory(deployment: Deployment, asked: Asked) -> None:
    remove_log_groups(asked.session().client("logs"), deployment.log_groups)
    remove_roles(asked.session().client("iam"), f"{deployment.prefix}-snowflake-")
    _delete_report(deployment, asked).print_result(keeps_data=asked.keeps_data)


def abandon_snowflake(deployment: Deployment, asked: Asked) -> None:
    """Destroy the roles that Snowflake assumes in AWS without a request to Snowflake, where its objects stay.

    Raises NotConfirmedError if the answer is not the environment's name.
    """
    stacks = asked.synthesis.stacks(deployment, purpose="abandon-snowflake")
    tell("snowflake: its objects stay in Snowflake and leave Terraform's state; its roles in AWS are deleted")
    tell(f"if the account still exists, run `{deployment.step('destroy snowflake')}` instead, which deletes both")
    ask_for_name(deployment, "abandon-snowflake", purpose="give up its Snowflake account")
    left = stacks.forget("snowflake", "snowflake_")
    stacks.apply(["snowflake"])
    for role in remove_roles(asked.session().client("iam"), f"{deployment.prefix}-snowflake-"):
        tell(f"snowflake: role {role} deleted, which Terraform's state did not have")
    forget(deployment.folder)
    tell(f"snowflake: nothing is left in AWS; {left} objects stay in Snowflake, no longer managed")
    _tell_of_the_section(deployment)


def _tell_of_the_section(deployment: Deployment) -> None:
    if deployment.settings.snowflake is not None and not deployment.snowflake_is_given:
        tell(f"remove `snowflake` from {deployment.settings.source_file}, or the next `create` makes all of it again")


def services_down(deployment: Deployment, asked: Asked) -> None:
    """Stop the local services, unless their data is to be kept, and delete the files that lead to what is gone."""
    forget(deployment.folder)
    if not asked.keeps_data:
        _stop_services(deployment, asked)
    if not asked.keeps_data or deployment.has_confluent:  # kept tables of your own Kafka stay within reach of `frazil`
        _delete_client_files(deployment)


def _stop_services(deployment: Deployment, asked: Asked) -> None:
    account_record.forget(deployment.folder)
    for line in deployment.cloud.stop_services(deployment, asked.services):
        tell(line)


def _delete_client_files(deployment: Deployment) -> None:
    """Delete the files that `source` and `frazil` use, and say how to undo a `source` of them."""
    if exported := delete_client_files(deployment):
        file = deployment.env_file.relative_to(deployment.checkout)
        tell(f"{file}: deleted; in a shell that sourced it, run `unset {' '.join(exported)}` or open a new shell")


def _delete_report(deployment: Deployment, asked: Asked) -> DeleteReport:
    confluent = cloud_of(deployment) if deployment.has_confluent else None
    return DeleteReport(deployment, asked.readable(deployment), asked.session(), tell, confluent)


def _database_goes_with_the_cluster(deployment: Deployment) -> bool:
    """Return whether the Glue database is named after the cluster.

    The next cluster has another id, so Terraform would replace the database that holds the kept tables.
    """
    return deployment.has_confluent and deployment.settings.lake.database is None
