"""Release the names of secrets that are scheduled for deletion, so that `create` works right after `delete`.

Secrets of a production environment reserve their names for weeks. Their keys are already deleted in Confluent Cloud.
"""

from __future__ import annotations

from typing import Any


def release_names(vault: Any, prefix: str) -> list[str]:
    """Delete permanently the secrets with the prefix that are scheduled for deletion; return their names.

    `vault` is a boto3 client. Secrets Manager requires restoring a scheduled secret before deleting it permanently.
    """
    released = []
    pages = vault.get_paginator("list_secrets").paginate(IncludePlannedDeletion=True)
    for secret in (each for page in pages for each in page["SecretList"]):
        if secret["Name"].startswith(prefix) and secret.get("DeletedDate"):
            vault.restore_secret(SecretId=secret["ARN"])
            vault.delete_secret(SecretId=secret["ARN"], ForceDeleteWithoutRecovery=True)
            released.append(str(secret["Name"]))
    return released
