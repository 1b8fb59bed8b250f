"""What `make test` says about the CPU seconds that its folders took."""

from __future__ import annotations

import subprocess
import sys

import psutil

from tests.costs import SHARES, cpu_seconds, over_their_share

BUSY = "import time\nwhile time.process_time() < 0.5: pass\nprint(flush=True)\ninput()"


def test_a_folder_over_its_share_is_warned_of_and_no_other() -> None:
    folders = {"faults": SHARES["faults"] + 1.0, "unit": float(SHARES["unit"]), "without a share": 10_000.0}

    (warning,) = over_their_share(folders)

    assert warning.startswith(f"WARNING: faults took {SHARES['faults'] + 1} CPU seconds")


def test_a_service_that_all_workers_use_is_not_on_the_bill_of_the_one_that_started_it() -> None:
    before = cpu_seconds()
    with subprocess.Popen([sys.executable, "-c", BUSY], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as service:
        assert service.stdout is not None
        service.stdout.readline()

        with_it, without_it = cpu_seconds(), cpu_seconds(apart_from=[psutil.Process(service.pid)])

        service.communicate(b"\n")
    assert with_it - before > 0.45
    assert with_it - without_it > 0.45
