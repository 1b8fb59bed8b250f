"""The test files that `make test-quick` leaves to `make test`: they start processes, or take seconds.

Each whole batch of a table takes a tenth of a second of CPU, in catalog and files; there are thousands.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

QUICK = bool(os.environ.get("FRAZIL_TEST_QUICK"))
"""Set by `make test-quick`."""

LEFT_TO_MAKE_TEST = frozenset(
    {
        "repo/test_deploy.py",
        "repo/test_hcp_guide.py",
        "repo/test_interrupted_run.py",
        "repo/test_resources.py",
        "repo/test_security.py",
        "repo/test_shares.py",
        "repo/test_skips.py",
        "repo/test_snowflake_page.py",
        "unit/cli/test_command_line.py",
        "unit/cli/test_stopping.py",
        "unit/infra/test_account_by_flag.py",
        "unit/infra/test_causes.py",
        "unit/infra/test_delete_report.py",
        "unit/infra/test_deploy_steps.py",
        "unit/infra/test_deploy_verbs.py",
        "unit/infra/test_deployer_policy.py",
        "unit/infra/test_deployment.py",
        "unit/infra/test_former_states.py",
        "unit/infra/test_frazil_config.py",
        "unit/infra/test_grants.py",
        "unit/infra/test_inventory.py",
        "unit/infra/test_keys.py",
        "unit/infra/test_rotating.py",
        "unit/infra/test_snowflake_key.py",
        "unit/infra/test_stacks.py",
        "unit/infra/test_synthesis.py",
        "unit/infra/test_terraform.py",
        "unit/materialize/test_hostile_values.py",
        "unit/materialize/test_preflight.py",
        "unit/materialize/test_spec_changes.py",
    }
)
"""Files below `tests/`. Most of them import the CDK, which starts Node.js; others start Python, Terraform or moto."""

DRIVES_WHOLE_BATCHES = re.compile(
    r"^from (whole_batches|changelogs|ordered_changelogs|change_streams|deduplicated|grouped_tables|policed_tables"
    r"|shaped_tables) ",
    re.MULTILINE,
)
"""An import of what drives whole batches in tests/unit/materialize."""


def is_left_out(path: Path) -> bool:
    """Return whether this run neither imports nor runs a test file."""
    tests = Path(__file__).parent
    if not QUICK or not path.is_relative_to(tests):
        return False
    return path.relative_to(tests).as_posix() in LEFT_TO_MAKE_TEST or drives_whole_batches(path)


def drives_whole_batches(path: Path) -> bool:
    """Return whether a file has tests of whole batches."""
    return path.match("unit/materialize/test_*.py") and bool(DRIVES_WHOLE_BATCHES.search(path.read_text()))
