"""The picture of the resources is that of the stacks as they are synthesized now."""

from __future__ import annotations

import re

import pytest
from pages import ROOT, text_of

from infra.deploy.deployment import STACKS
from infra.reports.costs import Document
from infra.reports.picture import all_stacks, one_stack, page, synthesized

PAGE = ROOT / "docs/resources.md"


@pytest.fixture(scope="module")
def stacks() -> dict[str, Document]:
    return synthesized()


def resource(path: str, **arguments: object) -> Document:
    return {"//": {"metadata": {"path": path}}, **arguments}


def test_the_page_is_current(stacks: dict[str, Document]) -> None:
    assert text_of(PAGE) == page(stacks), "run `.venv/bin/python -m infra.reports.picture`"


def test_stacks_are_drawn_in_the_order_in_which_they_are_applied(stacks: dict[str, Document]) -> None:
    assert tuple(stacks) == STACKS


@pytest.mark.parametrize("name", STACKS)
def test_every_resource_is_in_the_picture_once(stacks: dict[str, Document], name: str) -> None:
    lines = [line.strip() for line in one_stack(stacks[name])]
    boxes = [found for line in lines if (found := re.fullmatch(r'(r-[\w-]+)\["(?:(\d+) x |.*<br/>)(\w+)"\]', line))]
    data = stacks[name].get("data", {})

    drawn = sum(int(box[2] or 1) for box in boxes if box[3] not in data)

    assert drawn == sum(map(len, stacks[name]["resource"].values()))
    assert len({box[1] for box in boxes}) == len(boxes)


@pytest.mark.parametrize("name", STACKS)
def test_every_arrow_joins_two_boxes(stacks: dict[str, Document], name: str) -> None:
    lines = [line.strip() for line in one_stack(stacks[name])]
    boxes = {found[0] for line in lines if (found := re.match(r"[\w-]+(?=[\[(])", line))}

    ends = {end for line in lines if "-->" in line for end in line.split(" --> ")}

    assert ends <= boxes


def test_what_follows_from_other_arrows_is_left_out() -> None:
    stack = {
        "resource": {
            "aws_kms_key": {"key": resource("lake/key")},
            "aws_s3_bucket": {"bucket": resource("lake/bucket", key="${aws_kms_key.key.arn}")},
            "aws_s3_object": {
                "object": resource(
                    "lake/object",
                    bucket="${aws_s3_bucket.bucket.id}",
                    kms_key_id="${aws_kms_key.key.arn}",
                    content="$${aws_kms_key.not_a_reference}",
                )
            },
        }
    }

    arrows = [line.strip() for line in one_stack(stack) if "-->" in line]

    assert arrows == ["r-key --> r-bucket", "r-bucket --> r-object"]


def test_alike_resources_are_one_box() -> None:
    rule = {"type": "egress", "group": "${aws_security_group.job.id}"}
    stack = {
        "resource": {
            "aws_security_group": {"job": resource("network/job")},
            "aws_rule": {name: resource(f"network/{name}", **rule) for name in ("one", "two")},
        }
    }

    assert '    r-one["2 x aws_rule"]' in list(one_stack(stack))


def test_stacks_lead_to_those_that_take_their_values() -> None:
    reads = {"terraform_remote_state": {"cross-stack-reference-input-lake": resource("jobs/lake")}}
    stacks = {"lake": {"resource": {"aws_kms_key": {"key": {}}}}, "jobs": {"resource": {}, "data": reads}}

    assert list(all_stacks(stacks))[1:] == [
        '    lake["lake<br/>1 resources"]',
        '    jobs["jobs<br/>0 resources"]',
        "    lake --> jobs",
    ]
