"""EC2: one request at a time.

Terraform deletes the rules of a security group in parallel. moto reads the rules of the group, leaves one out and
writes the rest back without a lock, so of two rules revoked at the same moment one can come back.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from moto.ec2.responses import EC2Response

Answer = tuple[int, dict[str, str | int], str | bytes]
_answering = threading.Lock()


def one_at_a_time(call: Callable[[EC2Response], Answer]) -> Callable[[EC2Response], Answer]:
    def called(response: EC2Response) -> Answer:
        with _answering:
            return call(response)

    return called


def teach() -> None:
    """Replace moto's entry to all of EC2's operations with one that takes a lock."""
    EC2Response.call_action = one_at_a_time(EC2Response.call_action)
