"""Terraform's backend of a stack, set first in every stack because references between stacks read it."""

from __future__ import annotations

from typing import assert_never

from infra.cdk import CloudBackend, LocalBackend, NamedCloudWorkspace, S3Backend, Stack
from infra.settings.model import EnvironmentSettings, HcpState, LocalState, S3State
from shared.naming import state_key, state_path, workspace_name


def keep_state(stack: Stack, settings: EnvironmentSettings) -> None:
    """Set the backend of a stack. Paths are relative to the stack's folder, because a remote run gets nothing else."""
    name = stack.node.id
    match settings.backend:
        case LocalState():
            LocalBackend(stack, path=state_path(name))
        case S3State(bucket, region):
            S3Backend(stack, bucket=bucket, key=state_key(settings.environment, name), region=region, encrypt=True)
            stack.add_override("terraform.backend.s3.use_lockfile", value=True)
        case HcpState(organization, project, hostname):
            workspace = NamedCloudWorkspace(workspace_name(settings.environment, name), project=project)
            CloudBackend(stack, organization=organization, hostname=hostname, workspaces=workspace)
        case _ as unknown:
            assert_never(unknown)
