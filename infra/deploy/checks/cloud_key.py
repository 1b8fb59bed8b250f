"""Check the Confluent Cloud API key with one read-only request, before anything is created."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from frazil.model.errors import FrazilError
from infra.deploy.checks.prerequisites import Prerequisite
from shared.confluent_api import KEY_VARIABLE, SECRET_VARIABLE, ConfluentCloud, KeyPair, key_from_environment

WHAT = "Confluent Cloud key"
EXPECTED = f"in {KEY_VARIABLE} and {SECRET_VARIABLE}: a Cloud API key and its secret"

Connect = Callable[[KeyPair], ConfluentCloud]


def of_confluent(connect: Connect, environment: Mapping[str, str]) -> Prerequisite:
    """Return whether Confluent Cloud accepts the key; its permissions are not checked.

    A missing key is no failure, because `create` asks for it.
    """
    if not (environment.get(KEY_VARIABLE) and environment.get(SECRET_VARIABLE)):
        return Prerequisite(WHAT, "not given: `create` asks for it", EXPECTED)
    who = key_from_environment(environment)
    try:
        is_known = connect(who).knows_who_asks()
    except FrazilError as error:
        return Prerequisite(WHAT, error.what[:160], EXPECTED, error.hint)
    if not is_known:
        return Prerequisite(
            WHAT,
            f"{who.key} was rejected",
            EXPECTED,
            "use a Cloud API key, not a cluster API key: `confluent api-key create --resource cloud` creates one",
        )
    return Prerequisite(WHAT, who.key, EXPECTED)
