"""A command that bounds its memory gives back what it frees."""

from __future__ import annotations

import subprocess
import sys

COMMAND = """
import pyarrow as pa
from frazil.adapters.allocators import give_back_freed_memory
give_back_freed_memory()
print(pa.default_memory_pool().backend_name, len(pa.array(range(100_000)).take(pa.array([1, 2]))))
"""


def test_arrow_uses_the_allocator_of_the_system() -> None:
    done = subprocess.run([sys.executable, "-c", COMMAND], capture_output=True, text=True, check=True)

    assert done.stdout == "system 2\n"


PEAK = """

import psutil
import pyarrow as pa
from frazil.adapters.allocators import peak_given_back

def resident():
    return psutil.Process().memory_info().rss >> 20

usual = pa.default_memory_pool().backend_name
before = resident()
kept = []
with peak_given_back():
    inside = pa.default_memory_pool().backend_name
    arrays = []
    for number in range(2_000):
        arrays.append(pa.array(range(number, number + 8_000)))
        if number % 100 == 0:
            kept.append(pa.array(range(100)))
    peak = resident()
    del arrays
print(inside, pa.default_memory_pool().backend_name == usual, peak - before > 100, resident() - before < 30)
"""


def test_memory_of_a_peak_is_given_back() -> None:
    done = subprocess.run([sys.executable, "-c", PEAK], capture_output=True, text=True, check=True)

    assert done.stdout == "system True True True\n"
