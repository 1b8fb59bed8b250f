"""The steps of scripts/deploy.sh, by name. Each can be repeated: it does what is left to do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from frazil.model.errors import SettingError
from infra.app import read_tables
from infra.artefacts.artefact import Artefact, artefact_of, read_manifest, write_manifest
from infra.artefacts.lambda_zip import lambda_zip
from infra.artefacts.pack import pack
from infra.artefacts.upload import sweep
from infra.artefacts.upload import upload as upload_artefacts
from infra.checkout import CHECKOUT
from infra.components.key_rotation import FOLDER as ROTATE_KEYS
from infra.deploy import delete_steps
from infra.deploy.accounts import account_record
from infra.deploy.accounts.recall import recall
from infra.deploy.accounts.snowflake_account import record_of, remember
from infra.deploy.asked import Asked, Step
from infra.deploy.checks.findings import findings_of
from infra.deploy.checks.prerequisites import raise_if_missing
from infra.deploy.console import show, tell
from infra.deploy.deleting.released_names import release_names
from infra.deploy.deployment import Deployment
from infra.deploy.kafka.accounts_and_topics import (
    delete_keys_of_removed,
    make_keys,
    make_wanted_topics,
)
from infra.deploy.kafka.brokers import connect, out_of_reach
from infra.deploy.keys.rotating import Clouds, Rotating
from infra.deploy.keys.rotation_function import rotation_function
from infra.deploy.stacks.deployed import Stacks, resource_types, synthesize
from infra.deploy.stacks.former_states import FormerState
from infra.deploy.stacks.removed import refuse_removed_stacks
from infra.deploy.summary import summary_lines
from infra.deploy.tables.client_files import write_client_files
from infra.deploy.tables.frazil_command import NOT_THERE_YET, Frazil
from infra.deploy.tables.listed_tables import tables_in_glue, waiting
from infra.permissions.deployer_limits import limits_of
from infra.permissions.deployer_policy import policy_documents
from infra.wanted.topics import TOTALS

EXPORT_CSV = CHECKOUT / "lambdas" / "export_csv"


def check(deployment: Deployment, asked: Asked) -> None:
    findings = findings_of(deployment, asked.session)
    for finding in findings:
        tell(finding.line)
    raise_if_missing(findings)


def policy(deployment: Deployment, _: Asked) -> None:
    """Print the IAM policy that deploying this environment needs; makes no request to AWS."""
    documents = policy_documents(resource_types(deployment), limits_of(deployment.settings))
    for document in documents:
        show(document)
    if len(documents) > 1:
        tell(f"{len(documents)} documents, because one would exceed the size of a managed policy: attach all of them")


def services_up(deployment: Deployment, asked: Asked) -> None:
    deployment.cloud.start_services(deployment, asked.services)


def artefacts(deployment: Deployment, _: Asked) -> None:
    packed = pack(
        deployment.checkout,
        deployment.tables,
        deployment.target,
        _made(deployment.packed),
        native_required=deployment.cloud.native_required,
        transforms=deployment.transforms,
    )
    if deployment.settings.exports:
        function = lambda_zip(CHECKOUT, EXPORT_CSV, deployment.cloud.function_target, deployment.packed)
        packed = replace(packed, exports=artefact_of(function))
    write_manifest(packed, _made(deployment.folder) / deployment.manifest.name)
    for artefact in packed.all:
        tell(f"packed {artefact.file}: {artefact.size_bytes / 1e6:.1f} MB, {artefact.sha256[:12]}")
    if deployment.has_keys:
        function = lambda_zip(CHECKOUT, ROTATE_KEYS, deployment.cloud.function_target, deployment.packed)
        tell(f"packed {function.name}: {function.stat().st_size / 1e6:.1f} MB")


def free_names(deployment: Deployment, asked: Asked) -> None:
    for name in release_names(asked.vault(), deployment.secret_prefix):
        tell(f"{name}: permanently deleted, so that its name can be reused")


def keys(deployment: Deployment, asked: Asked) -> None:
    """Create the keys and publish their ages at once, because the alarm treats missing data as a failure."""
    secrets = asked.readable(deployment).outputs("secrets")
    if "rotation_function" not in secrets:
        return
    function = rotation_function(secrets["rotation_function"])
    if deployment.has_confluent:
        made = make_keys(deployment, secrets["secrets"], function, asked.vault(), tell)
        tell(f"keys: {made} of {len(secrets['secrets'])} accounts got a new key; all keys work")
    function.tell_ages(list(secrets["rotated"].values()))


def rotate(deployment: Deployment, asked: Asked) -> None:
    stacks = asked.readable(deployment)
    secrets, accounts = stacks.outputs("secrets"), stacks.outputs("confluent").get("service_accounts", {})
    function = rotation_function(secrets.get("rotation_function", ""))
    clouds = Clouds(asked.vault(), asked.session().client("logs"), function)
    done = Rotating(secrets.get("rotated", {}), clouds, tell, accounts).rotate(asked.secret, leaked=asked.leaked)
    tell(f"keys: {done} rotated")


def topics(deployment: Deployment, asked: Asked) -> None:
    done = make_wanted_topics(deployment, asked.readable(deployment).outputs("confluent"), asked.vault())
    tell(f"topics: {len(done.make)} created, {len(done.kept)} already existed")
    for difference in done.differing:
        tell(f"warning: {difference}")


def apply(deployment: Deployment, asked: Asked) -> None:
    _refuse_unpacked(deployment, asked.stacks)
    if account_record.recorded(deployment.folder) is None:
        here = deployment.cloud.account or account_record.account_of(asked.session)
        account_record.remember(here, deployment.folder)
    if (account := deployment.settings.snowflake) is not None and deployment.snowflake_is_given:
        remember(record_of(account), deployment.folder)
    _stacks_for(deployment, asked).apply(asked.stacks)


def destroy_removed(deployment: Deployment, asked: Asked) -> None:
    """Destroy what the settings no longer have, before the next apply removes the accounts and keys that this needs."""
    stacks = asked.synthesis.stacks(deployment)
    refuse_removed_stacks(deployment, stacks.names, asked.session)
    removed, confluent = stacks.destroy_removed(asked.stacks), stacks.outputs("confluent")
    if any(address.startswith("confluent_tableflow_topic.") for address in removed):
        place = f"the bucket and the Glue database {confluent.get('cluster_id')}, without updates"
        tell(f"Tableflow's tables of these topics stay in {place}; `delete` removes them")
    if any(address.startswith("confluent_flink_statement.") for address in removed):
        tell(f"the topic {TOTALS} stays with its schemas, without updates; `delete` removes it with the cluster")
    if deleted := delete_keys_of_removed(deployment, confluent, tell):
        tell(f"keys: {deleted} deleted, because the settings no longer have their accounts")


def plan(deployment: Deployment, asked: Asked) -> None:
    _refuse_unpacked(deployment, asked.stacks)
    stacks = _stacks_for(deployment, asked)
    refuse_removed_stacks(deployment, stacks.names, asked.session)
    for address in stacks.removed(sorted({"connectors"} & {*asked.stacks})):
        tell(f"connectors: `create` first destroys {address}, because the settings no longer have it")
    stacks.plan(asked.stacks)


def _refuse_unpacked(deployment: Deployment, stacks: Sequence[str]) -> None:
    """Raise SettingError if the artefacts of the job, the exports or the rotation function are not packed."""
    if "jobs" in stacks:
        read_manifest(deployment.manifest)
    if "exports" in stacks and deployment.settings.exports and read_manifest(deployment.manifest).exports is None:
        raise SettingError(
            f"the export function is not packed: {deployment.manifest} does not name it",
            hint="run `scripts/deploy.sh plan`, which packs it",
        )
    if "secrets" in stacks and deployment.has_keys and not deployment.rotation_zip.exists():
        raise SettingError(
            f"the rotation function is not packed: expected {deployment.rotation_zip}",
            hint="run `scripts/deploy.sh plan`, which packs it",
        )


def move_states(deployment: Deployment, asked: Asked) -> None:
    """Copy the states that are in a former backend to the one of the settings."""
    account_record.refuse_another_account(deployment.settings, deployment.profile, deployment.folder, asked.session)
    moved = list(map(_tell_moved, synthesize(deployment, tell, moves_states=True).move_states()))
    tell(f"states: {len(moved)} copied")


def _tell_moved(former: FormerState) -> None:
    tell(f"{former.stack}: state copied from {former.found} to {former.expected}")


def upload(deployment: Deployment, asked: Asked) -> None:
    bucket = asked.readable(deployment).outputs("lake")["bucket_name"]
    manifest = read_manifest(deployment.manifest)
    sent = upload_artefacts(manifest, deployment.packed, bucket, asked.session().client("s3"), _nothing)
    tell(f"artefacts: {len(sent)} of {len(manifest.all)} uploaded to s3://{bucket}, {_megabytes(sent)} MB")
    if swept := sweep(manifest, bucket, asked.session().client("s3")):
        tell(f"artefacts: {swept} old ones deleted")


def tables(deployment: Deployment, asked: Asked) -> None:
    """Create the tables, empty, so that readers can attach to them; skip topics without a registered schema.

    Raises CommandFailedError if a table cannot be created for any other reason.
    """
    _write_config(deployment, asked.readable(deployment).outputs("jobs"))
    unreached = out_of_reach(deployment.settings.kafka, connect)
    if unreached is not None:
        tell(f"warning: cannot reach {unreached} from this machine: the job will create the tables")
        return
    create = ("materialize", "--create-only", "--config", str(deployment.config))
    if Frazil(deployment.checkout).must(*create, or_status=NOT_THERE_YET) == NOT_THERE_YET:
        tell("some tables do not exist yet (see above): the job or the next `create` creates them")


def outputs(deployment: Deployment, asked: Asked) -> None:
    stacks = asked.readable(deployment)
    found = {name: stacks.outputs(name) for name in stacks.names}
    _write_config(deployment, found.get("jobs", {}))
    for stack, values in found.items():
        for name, value in sorted(values.items()):
            if not name.startswith("cross-stack-output") and name != "frazil_config":
                show(f"{stack}.{name} = {value}")


def summary(deployment: Deployment, asked: Asked) -> None:
    stacks = asked.readable(deployment)
    found = {name: stacks.outputs(name) for name in stacks.names}
    show("\n".join(summary_lines(deployment, found, stacks.resources())))


def _stacks_for(deployment: Deployment, asked: Asked) -> Stacks:
    """Synthesize the stacks to plan or apply; the stack snowflake gets only the tables that exist in Glue."""
    stacks = asked.synthesis.stacks(deployment)
    database = stacks.outputs("lake").get("database_name") if "snowflake" in {*asked.stacks} & {*stacks.names} else None
    if database is None:
        return stacks
    listed = tables_in_glue(asked.session().client("glue"), database)
    missing = [*waiting(read_tables(deployment.tables), listed)]
    for table in missing:
        tell(f"snowflake: {table} is not in Glue yet; the next `create` attaches it")
    return asked.synthesis.stacks(deployment, listed=listed) if missing else stacks


def _write_config(deployment: Deployment, jobs: Mapping[str, Any]) -> None:
    if "frazil_config" in jobs:
        write_client_files(deployment, jobs["frazil_config"])


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _nothing(_: Artefact, __: int) -> None:
    return None


def _megabytes(artefacts: Sequence[Artefact]) -> str:
    return f"{sum(each.size_bytes for each in artefacts) / 1e6:.1f}"


STEPS: Mapping[str, Step] = {
    "check": check,
    "policy": policy,
    "recall": recall,
    "services-up": services_up,
    "services-down": delete_steps.services_down,
    "artefacts": artefacts,
    "free-names": free_names,
    "keys": keys,
    "rotate": rotate,
    "topics": topics,
    "delete-keys": delete_steps.delete_keys,
    "apply": apply,
    "plan": plan,
    "upload": upload,
    "tables": tables,
    "outputs": outputs,
    "summary": summary,
    "confirm-delete": delete_steps.confirm,
    "destroy": delete_steps.destroy,
    "abandon-snowflake": delete_steps.abandon_snowflake,
    "destroy-removed": destroy_removed,
    "move-states": move_states,
    "empty": delete_steps.empty,
    "inventory": delete_steps.inventory,
}
