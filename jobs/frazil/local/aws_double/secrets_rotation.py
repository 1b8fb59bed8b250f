"""Secrets Manager: rotate a secret with its Lambda function, in the background as in AWS.

moto runs the four steps within the call, passes the secret's name where AWS passes its ARN, treats a failed step as a
success, forgets the function if a later call does not name it, rotates a secret whose function it may not invoke, and
cannot rotate a secret without a value. Here, all steps run again after a failure, at most three times in total. A
failed rotation leaves its pending version; the next call continues with that version and says so.
"""

from __future__ import annotations

import json
import threading
import time
import uuid
from collections.abc import Mapping
from typing import Any

from moto.awslambda.utils import get_backend
from moto.core.exceptions import JsonRESTError
from moto.secretsmanager.exceptions import InvalidRequestException, ResourceNotFoundException, SecretNotFoundException
from moto.secretsmanager.models import SecretsManagerBackend

PRINCIPAL = "secretsmanager.amazonaws.com"
CURRENT, PENDING = "AWSCURRENT", "AWSPENDING"
STEPS = ("createSecret", "setSecret", "testSecret", "finishSecret")
ATTEMPTS = 3
PAUSE_SECONDS = 0.5
DAYS = "AutomaticallyAfterDays"
SECONDS_A_DAY = 86400

_starting = threading.Lock()


def _rotate_secret(
    backend: Any,
    secret_id: str,
    client_request_token: str | None = None,
    rotation_lambda_arn: str | None = None,
    rotation_rules: Mapping[str, Any] | None = None,
    rotate_immediately: bool = True,
) -> str:
    with _starting:
        secret = _secret(backend, secret_id)
        _configure(backend, secret, rotation_lambda_arn or secret.rotation_lambda_arn, rotation_rules or {})
        unfinished = _unfinished(secret)
        version = unfinished or client_request_token or str(uuid.uuid4())
        if not unfinished:
            _begin(secret, version, with_value=not rotate_immediately)
        work = _rotate if rotate_immediately or unfinished else _try_out
        threading.Thread(target=work, args=(backend, secret, version), name=f"rotation-{version}", daemon=True).start()
        if unfinished:
            raise InvalidRequestException("A previous rotation isn't complete. That rotation will be reattempted.")
        return str(secret.to_short_dict(version_id=version))


def _secret(backend: Any, secret_id: str) -> Any:
    secret = backend.secrets.get(secret_id)
    if secret is None:
        raise SecretNotFoundException
    if secret.is_deleted():
        words = "You can't perform this operation on the secret because it was marked for deletion."
        raise InvalidRequestException(words)
    return secret


def _configure(backend: Any, secret: Any, function: str, rules: Mapping[str, Any]) -> None:
    if not function:
        raise InvalidRequestException("No Lambda rotation function ARN is associated with this secret.")
    try:
        found = get_backend(backend.account_id, backend.region_name).get_function(function)
    except Exception as error:
        words = "Lambda does not exist or could not be accessed"
        raise ResourceNotFoundException(words) from error
    if not _may_be_invoked(found):
        raise JsonRESTError(
            "AccessDeniedException",
            "Secrets Manager cannot invoke the specified Lambda function. Ensure that the function policy grants "
            f"access to the principal {PRINCIPAL}.",
        )
    secret.rotation_requested = secret.rotation_enabled = True
    secret.rotation_lambda_arn = function
    secret.auto_rotate_after_days = rules.get(DAYS, secret.auto_rotate_after_days)


def _may_be_invoked(function: Any) -> bool:
    statements = function.policy.statements if function.policy else []
    return any((one.get("Principal") or {}).get("Service") == PRINCIPAL for one in statements)


def _unfinished(secret: Any) -> str | None:
    """Return the pending version of a rotation that failed or is still running, or None."""
    for version, details in secret.versions.items():
        if PENDING in details["version_stages"] and CURRENT not in details["version_stages"]:
            return str(version)
    return None


def _begin(secret: Any, version: str, *, with_value: bool) -> None:
    """Add a pending version: without a value, which the function will set, or for a test with the current value."""
    current: Mapping[str, Any] = next((o for o in secret.versions.values() if CURRENT in o["version_stages"]), {})
    value = {name: current[name] for name in ("secret_string", "secret_binary") if with_value and name in current}
    secret.remove_version_stages_from_old_versions([PENDING])
    pending = {"createdate": int(time.time()), "version_id": version, "version_stages": [PENDING]}
    secret.versions[version] = pending | value


def _rotate(backend: Any, secret: Any, version: str) -> None:
    for attempt in range(1, ATTEMPTS + 1):
        if all(_step(backend, secret, version, step) for step in STEPS):
            secret.remove_version_stages_from_old_versions([PENDING])
            secret.last_rotation_date = int(time.time())
            if secret.auto_rotate_after_days:
                secret.next_rotation_date = secret.last_rotation_date + secret.auto_rotate_after_days * SECONDS_A_DAY
            return
        time.sleep(PAUSE_SECONDS * attempt)


def _try_out(backend: Any, secret: Any, version: str) -> None:
    """Run the step testSecret with a temporary pending version. Its result is not reported."""
    _step(backend, secret, version, "testSecret")
    secret.versions.pop(version, None)


def _step(backend: Any, secret: Any, version: str, step: str) -> bool:
    """Invoke the function for one step. Return whether it succeeded."""
    event = json.dumps({"Step": step, "SecretId": secret.arn, "ClientRequestToken": version})
    headers: dict[str, Any] = {}
    functions = get_backend(backend.account_id, backend.region_name)
    try:
        functions.invoke(secret.rotation_lambda_arn, None, event, {}, headers)
    except Exception:  # noqa: BLE001 - any error, such as a deleted function, means that the step failed
        return False
    return "x-amz-function-error" not in headers


def teach() -> None:
    SecretsManagerBackend.rotate_secret = _rotate_secret
