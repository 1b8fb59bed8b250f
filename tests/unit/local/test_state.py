from __future__ import annotations

import os
from pathlib import Path

import pytest

from frazil.local.processes import is_alive
from frazil.local.state import Running, ServiceState, read_state, write_state
from frazil.model.errors import SettingError


def test_the_state_reads_back_as_it_was_written(tmp_path: Path) -> None:
    state = {
        "broker": ServiceState({"main": 9092, "controller": 9093}, Running(4711, "boot 99")),
        "aws": ServiceState({"main": 4566}),
    }

    write_state(tmp_path, state)

    assert read_state(tmp_path) == state
    assert [path.name for path in tmp_path.iterdir()] == ["state.json"]


def test_a_folder_that_was_never_up_has_no_state(tmp_path: Path) -> None:
    assert read_state(tmp_path) == {}


@pytest.mark.parametrize("content", ["", "[]", "{}}", '{"broker": 1}', '{"broker": {"ports": {"main": "x"}}}'])
def test_a_state_that_is_not_ours_is_refused_with_its_path(tmp_path: Path, content: str) -> None:
    (tmp_path / "state.json").write_text(content)

    with pytest.raises(
        SettingError, match=f"Could not read the state of the local services from {tmp_path / 'state.json'}"
    ):
        read_state(tmp_path)


def test_a_process_with_the_same_id_that_started_at_another_time_is_not_ours() -> None:
    assert not is_alive(Running(os.getpid(), "another boot 1"))
