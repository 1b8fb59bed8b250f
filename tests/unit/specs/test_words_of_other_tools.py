"""Hints for words that other tools use."""

from __future__ import annotations

import pytest
from config_files import GOOD, Load

from frazil.model.errors import SettingError


@pytest.mark.parametrize(
    ("spec", "hint"),
    [
        ("write: upsert\non_tombstone: delete", "a record without a value deletes the row of its key"),
        ("write: merge", "use upsert"),
        ("write: SCD2", "use history"),
    ],
)
def test_a_word_of_another_tool_is_answered_with_ours(load: Load, spec: str, hint: str) -> None:
    with pytest.raises(SettingError) as refused:
        load(GOOD, f"topic: a\n{spec}")

    assert refused.value.hint is not None
    assert refused.value.hint.endswith(hint)
