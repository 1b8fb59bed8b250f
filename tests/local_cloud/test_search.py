"""The search for secrets finds them wherever they can be, and takes nothing for clean that it could not read."""

from __future__ import annotations

from pathlib import Path

import pytest
from deployed import Deployed
from search import files_with, written_files

BELOW = "checkout/.frazil/deploy/local/terraform/lake"


def test_what_terraform_keeps_beside_a_state_is_searched_but_for_providers(tmp_path: Path) -> None:
    for file in ("terraform.tfstate", "providers/registry/hashicorp/aws/provider"):
        (tmp_path / BELOW / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / BELOW / file).write_text("a secret: hush")

    found = files_with({"hush"}, written_files(Deployed(tmp_path)))

    assert found == [str(tmp_path / BELOW / "terraform.tfstate")]


def test_a_file_that_cannot_be_read_is_not_taken_for_clean(tmp_path: Path) -> None:
    with pytest.raises(IsADirectoryError):
        files_with({"hush"}, [tmp_path])

    assert files_with({"hush"}, [tmp_path / "gone"]) == []
