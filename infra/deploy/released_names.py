"""Makes a `create` after a `delete` work at once: secrets of production keep their names for weeks after it.

Their keys were deleted in Confluent Cloud, so what they hold opens nothing any more.
"""

from __future__ import annotations

from typing import Any


def release_names(vault: Any, prefix: str) -> list[str]:
    """Delete for good what is scheduled for deletion under the prefix; which those were. `vault` is boto3's client.

    A secret that is scheduled can only be deleted for good after it was restored.
    """
    released = []
    pages = vault.get_paginator("list_secrets").paginate(IncludePlannedDeletion=True)
    for secret in (each for page in pages for each in page["SecretList"]):
        if secret["Name"].startswith(prefix) and secret.get("DeletedDate"):
            vault.restore_secret(SecretId=secret["ARN"])
            vault.delete_secret(SecretId=secret["ARN"], ForceDeleteWithoutRecovery=True)
            released.append(str(secret["Name"]))
    return released
