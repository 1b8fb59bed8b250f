from __future__ import annotations

import json

from infra.permissions.iam import EVERYBODY, Policy, Principal, Statement, tls_only, trust_external, trust_service


def document_of(policy: Policy) -> object:
    return json.loads(policy.json)


def test_a_policy_is_the_same_text_in_whatever_order_its_actions_were_named() -> None:
    first = Policy((Statement(actions=("s3:PutObject", "s3:GetObject"), resources=("arn:aws:s3:::lake/*",)),))
    second = Policy((Statement(actions=("s3:GetObject", "s3:PutObject"), resources=("arn:aws:s3:::lake/*",)),))

    assert first.json == second.json


def test_a_statement_says_what_it_was_given_and_nothing_else() -> None:
    statement = Statement(
        sid="Read",
        actions=("s3:ListBucket",),
        resources=("arn:aws:s3:::lake",),
        conditions={"StringLike": {"s3:prefix": ("lkc-1/*", "artefacts/*")}},
    )

    assert document_of(Policy((statement,))) == {
        "Version": "2012-10-17",
        "Statement": [
            {
                "Sid": "Read",
                "Effect": "Allow",
                "Action": "s3:ListBucket",
                "Resource": "arn:aws:s3:::lake",
                "Condition": {"StringLike": {"s3:prefix": ["lkc-1/*", "artefacts/*"]}},
            }
        ],
    }


def test_a_service_takes_a_role_for_this_account_only() -> None:
    trust = trust_service("scheduler.amazonaws.com", account_id="123456789012", source_arn="arn:aws:scheduler:x")

    assert document_of(trust) == {
        "Version": "2012-10-17",
        "Statement": [
            {
                "Effect": "Allow",
                "Principal": {"Service": "scheduler.amazonaws.com"},
                "Action": "sts:AssumeRole",
                "Condition": {
                    "ArnLike": {"aws:SourceArn": "arn:aws:scheduler:x"},
                    "StringEquals": {"aws:SourceAccount": "123456789012"},
                },
            }
        ],
    }


def test_somebody_elses_role_shows_the_external_id_and_may_tag_its_session() -> None:
    trust = trust_external("arn:aws:iam::111122223333:role/cspi-1y3y5", "636d-dd")

    assert document_of(trust) == {
        "Version": "2012-10-17",
        "Statement": [
            {
                "Effect": "Allow",
                "Principal": {"AWS": "arn:aws:iam::111122223333:role/cspi-1y3y5"},
                "Action": ["sts:AssumeRole", "sts:TagSession"],
                "Condition": {"StringEquals": {"sts:ExternalId": "636d-dd"}},
            },
        ],
    }


def test_everybody_is_refused_without_tls() -> None:
    assert document_of(Policy((tls_only("arn:aws:s3:::lake"),))) == {
        "Version": "2012-10-17",
        "Statement": [
            {
                "Sid": "TlsOnly",
                "Effect": "Deny",
                "Principal": "*",
                "Action": "s3:*",
                "Resource": ["arn:aws:s3:::lake", "arn:aws:s3:::lake/*"],
                "Condition": {"Bool": {"aws:SecureTransport": "false"}},
            }
        ],
    }


def test_principals_are_grouped_by_their_kind() -> None:
    principal = Principal(services=("lambda.amazonaws.com",), arns=("arn:aws:iam::1:root", "arn:aws:iam::2:root"))

    assert principal.document() == {
        "AWS": ["arn:aws:iam::1:root", "arn:aws:iam::2:root"],
        "Service": "lambda.amazonaws.com",
    }
    assert EVERYBODY.document() == "*"
