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
