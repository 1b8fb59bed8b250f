"""Stock trades through a real broker into an Iceberg table, with a kill in the middle, proven complete; then sales."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from frazil.cli.printed_errors import named
from frazil.demo.sales import EXAMPLE, first_lines, prepare
from frazil.demo.victim import STAGED
from frazil.local.produce import produce
from frazil.local.supervisor import ANY_FREE_PORTS, LocalServices, down, up
from frazil.model.errors import FrazilError

HOME = Path(".frazil/demo")
CONFIG = HOME / "frazil.yaml"
TRADES = 200_000
SALES = 2_000
BATCH = 20_000
KILLED_BATCH = 4
PARTITIONS = 6

SETTINGS = """\
kafka:
  bootstrap.servers: {bootstrap_servers}
schema_registry:
  url: {registry}
catalog:
  type: jdbc
  warehouse: warehouse
database: lake
tables: tables/
"""

TABLE = """\
topic: stock_trades
key: string
partition_by: [symbol]
trigger: {{every: 5s, rows: {rows}}}
"""

TOTALS = """\
from: stock_trades
sql: |
  SELECT kafka_timestamp AS traded_at, userid, side, symbol,
         sum(CAST(price AS decimal(18, 4)) * quantity) AS total,
         count(*) AS trades
  FROM stock_trades
  GROUP BY kafka_timestamp, userid, side, symbol
partition_by: [symbol]
"""
"""As in transforms/stock_total_trades.yaml of a checkout, which an installed wheel does not have."""

TOTALS_QUESTION = """\
SELECT symbol, side, sum(trades) AS trades, sum(total) AS total
FROM lake.stock_total_trades GROUP BY ALL ORDER BY total DESC LIMIT 3"""

QUESTION = """\
SELECT symbol, side, count(*) AS trades, sum(CAST(price AS decimal(18, 4)) * quantity) AS total
FROM lake.stock_trades GROUP BY ALL ORDER BY total DESC LIMIT 3"""

NEXT = """
What to try next:
  {program} local up                             a broker, a registry and a local AWS of your own
  {program} local produce stock_trades --rate 500 --rows 100000
  {program} materialize --every 5s               in another terminal; frazil.yaml and tables/ say what
  {program} status                               lag, freshness, rows, what is paused and why
"""


def main() -> int:
    """Run the demo; return its exit status."""
    for number in (signal.SIGINT, signal.SIGTERM):  # SIGINT too: in the background of a shell it begins ignored
        signal.signal(number, signal.default_int_handler)
    started = time.monotonic()
    try:
        with _services() as services:
            _demo(services)
    except KeyboardInterrupt:
        print("\nstopped, and with it every server that was started", file=sys.stderr)
        return 130
    except FrazilError as error:
        print(named(error), file=sys.stderr)
        return error.exit_status
    print(f"\nThat took {time.monotonic() - started:.0f} s; every server that was started is stopped.")
    if Path("frazil.yaml").exists():
        print(NEXT.format(program=program()), end="")
    return 0


@contextmanager
def _services() -> Iterator[LocalServices]:
    """A broker and a registry for this demo alone; nothing is left of an earlier one."""
    directory = HOME / "local"
    down(directory, wipe=True)
    shutil.rmtree(HOME, ignore_errors=True)
    _say("starting a Kafka broker and a schema registry")
    try:
        yield up(services=("broker", "registry"), directory=directory, preferred_ports=ANY_FREE_PORTS)
    finally:
        down(directory)


def _demo(services: LocalServices) -> None:
    _write_configuration(services)
    _say(f"producing {TRADES:,} stock trades")
    produce("stock_trades", TRADES, services=services, partitions=PARTITIONS)
    _say(f"materializing in batches of {BATCH:,}; batch {KILLED_BATCH} is killed between stage and publish")
    _run_and_kill()
    _say("the process group is dead (SIGKILL); what readers see now:")
    _frazil("query", "SELECT count(*) AS rows FROM lake.stock_trades")
    _say("resuming from the table: it is the checkpoint")
    _frazil("materialize", "--once")
    _say("is anything lost or double?")
    _frazil("verify", "--against-kafka")
    _say("once more:")
    _frazil("materialize", "--once")
    _write_transformation()
    _say("a second table, of totals that each batch of trades adds to:")
    _frazil("transform", "run", "--once")
    _frazil("query", TOTALS_QUESTION)
    _say("the same question to all trades, answered by DuckDB:")
    _frazil("query", QUESTION)
    _say("do all totals agree with the trades?")
    _frazil("transform", "verify", "stock_total_trades")
    if EXAMPLE.is_dir():
        _sell(services)


def _sell(services: LocalServices) -> None:
    """Play the example of sales channels, which a checkout has."""
    _say(f"producing {SALES:,} records of sales channels: some twice, some late, some broken, with personal data")
    config = prepare(HOME, services)
    produce("sales_channel", SALES, services=services, partitions=1)
    _say("each event once, masked, in a table and a topic, and a flat row of each in another table:")
    _frazil("materialize", "--once", config=config)
    _say("a week of them as a file:")
    _frazil("export", "sales_weekly", "--from", "2026-01-05", "--to", "2026-01-12", config=config)
    print(first_lines(config, 3), end="", flush=True)


def _write_configuration(services: LocalServices) -> None:
    (HOME / "tables").mkdir(parents=True)
    settings = SETTINGS.format(bootstrap_servers=services.bootstrap_servers, registry=services.schema_registry_url)
    CONFIG.write_text(settings)
    (HOME / "tables" / "stock_trades.yaml").write_text(TABLE.format(rows=BATCH))


def _write_transformation() -> None:
    (HOME / "transforms").mkdir()
    (HOME / "transforms" / "stock_total_trades.yaml").write_text(TOTALS)


def _run_and_kill() -> None:
    """Start a run, and kill its whole process group once the batch is staged."""
    command = [sys.executable, "-m", "frazil.demo.victim", str(CONFIG), str(KILLED_BATCH)]
    victim = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)
    try:
        assert victim.stdout is not None  # noqa: S101 - it was asked for
        for line in victim.stdout:
            if line.strip() == STAGED:
                break
            print(line, end="", flush=True)
        else:
            raise SystemExit(f"the run ended unexpectedly with status {victim.wait()}; see {HOME / 'spark.log'}")
    finally:
        os.killpg(victim.pid, signal.SIGKILL)
        victim.wait()


def _frazil(*arguments: str, config: Path = CONFIG) -> None:
    asked = [*arguments, "--config", str(config)]
    print(f"$ {shown(asked)}", flush=True)
    status = subprocess.run([sys.executable, "-m", "frazil.cli.app", *asked], check=False).returncode
    if status:
        raise SystemExit(status)


def shown(arguments: Sequence[str]) -> str:
    """The command as it can be pasted into a shell, while the services run."""
    return f"{program()} {shlex.join(arguments)}"


def program() -> str:
    """Return the command that runs `frazil`: its path in a checkout, its name if it is installed."""
    installed = Path(sys.executable).with_name("frazil")
    return str(installed.relative_to(Path.cwd())) if installed.is_relative_to(Path.cwd()) else "frazil"


def _say(sentence: str) -> None:
    print(f"\n── {sentence}", flush=True)
