"""A copy of this checkout for one deployment: what git would clone, and what costs much to make anew."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from deployed import COLD, Deployed
from sales import CLEAN, EXAMPLE, KEYS_IN_ENVIRONMENT, SALES, WEEKLY

CHECKOUT = Path(__file__).parents[2]
ARTEFACTS = ".frazil/artefacts"
PACKED = ("environment.tar.gz", "rotate_keys.zip", "export_csv.zip")
EVERY_SECONDS = "every: 5s"
"""Looks for records cost CPU all the while; each wait of a test for rows takes half as long as this."""
COLD_SPEC = f"""
topic: {COLD}
key: string
value: avro
write: append
readers: [athena, duckdb]
formats: [iceberg, delta]
"""
SIDES = "cold_sides"
SIDES_SPEC = f"from: {COLD}\npython: transforms.sides:of_trades\n"
SIDES_MODULE = """
from pyspark.sql import functions as F


def lowered(side):
    return side.lower()


def of_trades(trades):
    return trades.select("userid", F.udf(lowered, "string")("side").alias("side"))
"""
"""A function that workers call: they must get its code, because they have no such module."""

COLD_SCHEDULE = f"  tables: {{{COLD}: rate(1 hour)}}\n"
TOTALS = "stock_total_trades"
TOPICS = "kafka:\n  confluent: {stand_in: true, datagen: true"
OUTPUT_TOPICS = f", topics: {{{TOTALS}: {{partitions: 2}}, {CLEAN}: {{partitions: 2}}}}"
WEEKLY_SALES = f'  {WEEKLY}: {{schedule: "cron(0 7 ? * MON *)", mail: [you@example.com]}}\n'


def copy_of_checkout(folder: Path) -> Deployed:
    """What git would clone, as it is now, with what `make setup` made beside it and nothing else.

    The job looks for records every few seconds rather than every minute, and there is a second table, which has job
    runs of its own by a schedule. Each table has a transformation, one of them in Python. `make` does nothing: what it
    would install is there.
    """
    deployed = Deployed(folder)
    for name in _files():
        (deployed.checkout / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(CHECKOUT / name, deployed.checkout / name)
    (deployed.checkout / ".venv").symlink_to(sys.prefix)
    _share(CHECKOUT / "native/target/install", deployed.checkout / "native/target/install")
    for name in PACKED:
        for packed in (CHECKOUT / ARTEFACTS).glob(f"*/{name}"):
            _share(packed, deployed.checkout / ARTEFACTS / packed.parent.name / name)
    _script(folder / "bin" / "make", "#!/bin/sh\n")
    _hasten(deployed.checkout)
    return deployed


def _files() -> list[str]:
    listed = ("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
    names = subprocess.run(listed, cwd=CHECKOUT, capture_output=True, text=True, check=True).stdout.split("\0")
    return [name for name in names if name and (CHECKOUT / name).is_file()]


def keep_artefacts(checkout: Path) -> None:
    """Keep what was packed, named by the hash of what it has, for the next run: it costs 60 CPU seconds."""
    for packed in (file for name in PACKED for file in (checkout / ARTEFACTS).glob(f"*/{name}")):
        kept = CHECKOUT / ARTEFACTS / packed.parent.name / packed.name
        if not kept.exists():
            kept.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(packed, kept.with_suffix(".unfinished")).replace(kept)


def _share(original: Path, link: Path) -> None:
    link.parent.mkdir(parents=True, exist_ok=True)
    if original.exists():
        link.symlink_to(original)


def _script(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


def _hasten(checkout: Path) -> None:
    spec = checkout / "tables" / "stock_trades.yaml"
    assert "every: 60s" in spec.read_text()
    spec.write_text(spec.read_text().replace("every: 60s", EVERY_SECONDS))
    (checkout / "tables" / f"{COLD}.yaml").write_text(COLD_SPEC)
    totals = checkout / "transforms" / f"{TOTALS}.yaml"
    text, commented, topic = totals.read_text().partition("\n# outputs:")
    assert commented and f"#   - topic: {TOTALS}" in topic
    totals.write_text(f"{text}\noutputs:\n  - topic: {TOTALS}\n")
    for kind in ("tables", "transforms", "exports"):
        shutil.copytree(checkout / EXAMPLE / kind, checkout / kind, dirs_exist_ok=True)
    with (checkout / "tables" / f"{SALES}.yaml").open("a") as sales:
        sales.write(f"\ntrigger: {{{EVERY_SECONDS}}}\n")
    (checkout / "transforms" / "stock_trades_with_totals.yaml").unlink()
    (checkout / "transforms" / f"{SIDES}.yaml").write_text(SIDES_SPEC)
    (checkout / "transforms" / "sides.py").write_text(SIDES_MODULE)
    environment = checkout / "infra/environments/local.yaml"
    settings, section, _ = environment.read_text().partition("\nsnowflake:")
    assert section, "the account is to come from the command line"
    for place, more in ((TOPICS, OUTPUT_TOPICS), ("\njobs:\n", COLD_SCHEDULE)):
        assert place in settings
        settings = settings.replace(place, f"{place}{more}")
    environment.write_text(f"{settings}\n{WEEKLY_SALES}{KEYS_IN_ENVIRONMENT}")
