"""docs/cost.md: its commands run, its outputs have the columns of today, and its figures are those of the code."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from frazil.cli.app import run
from frazil.monitoring.cost.estimate import Deployment
from frazil.monitoring.cost.requests import requests_of
from frazil.specs.prices import read_prices

PAGE = (Path(__file__).parents[2] / "docs" / "cost.md").read_text(encoding="utf-8")
COMMANDS = re.findall(r"```bash\n\.venv/bin/(frazil cost[^\n]*)\n```\n\n```text\n(.*?)```", PAGE, re.DOTALL)


def shape(text: str) -> list[list[str]]:
    """Return each line without its figures and the spaces that depend on them."""
    return [re.sub(r"[-+]?[\d,.]+( (s|min|h|d)\b)?|lake\.\w+| +", " ", line).split() for line in text.splitlines()]


@pytest.mark.parametrize(("command", "output"), COMMANDS)
def test_commands_print_what_the_page_shows(
    config: str, command: str, output: str, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "120")

    assert run([*shlex.split(command)[1:], "--config", config]) == 0

    assert shape(capfd.readouterr().out) == shape(output)


def test_page_has_an_output_for_each_of_its_two_commands() -> None:
    assert len(COMMANDS) == 2


def test_page_gives_the_requests_of_a_batch() -> None:
    one = requests_of(batches=1, with_dead_letters=0, files=1, written_bytes=0, empty_triggers=0)
    two = requests_of(batches=1, with_dead_letters=0, files=2, written_bytes=0, empty_triggers=0)
    letters = requests_of(batches=1, with_dead_letters=1, files=2, written_bytes=0, empty_triggers=0)
    text = " ".join(PAGE.split())

    assert f"it makes {one.writes:.0f} requests that write" in text
    assert f"{one.reads:.0f} that read, and {one.glue:.0f} to Glue" in text
    assert f"each further file makes {two.writes - one.writes:.0f} more" in text
    more = (letters.writes - one.writes, letters.reads - one.reads, letters.glue - one.glue)
    assert "makes {:.0f}, {:.0f} and {:.0f} more".format(*more) in text
    assert f"at least {one.writes:.0f} requests that write" in text


def test_page_gives_the_price_of_a_job_that_streams() -> None:
    prices = read_prices()

    assert (
        f"{Deployment().hourly(prices) * prices.hours_per_month:.2f} USD a month even if nothing arrives"
        in " ".join(PAGE.split())
    )
