"""The AWS double answers EC2 requests one at a time."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import cast

import pytest
from moto.ec2.responses import EC2Response

from frazil.local.aws_double import ec2


def test_a_request_waits_until_the_one_before_is_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    both_inside = threading.Barrier(2)

    def call(response: EC2Response) -> ec2.Answer:
        try:
            both_inside.wait(timeout=0.5)
        except threading.BrokenBarrierError:
            return 200, {}, "alone"
        return 200, {}, "together"

    monkeypatch.setattr(EC2Response, "call_action", call)
    ec2.teach()

    with ThreadPoolExecutor(2) as pool:
        answers = list(pool.map(EC2Response.call_action, [cast("EC2Response", None)] * 2))

    assert [body for _, _, body in answers] == ["alone", "alone"]
