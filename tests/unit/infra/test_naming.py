from __future__ import annotations

import pytest

from shared import naming


def test_every_name_says_what_it_belongs_to() -> None:
    names = {
        "resource": naming.resource_name("dev", "materializer"),
        "bucket": naming.bucket_name("dev", account_id="123456789012", region="eu-west-1"),
        "secret": naming.secret_name("dev", "manager"),
        "log group": naming.log_group_name("dev", "materializer"),
        "snowflake": naming.snowflake_name("dev-2", "reader"),
        "workspace": naming.workspace_name("dev", "lake"),
        "state": naming.state_key("dev", "lake"),
    }

    assert names == {
        "resource": "frazil-dev-materializer",
        "bucket": "frazil-dev-123456789012-eu-west-1",
        "secret": "frazil/dev/manager",
        "log group": "/frazil/dev/materializer",
        "snowflake": "FRAZIL_DEV_2_READER",
        "workspace": "frazil-dev-lake",
        "state": "frazil/dev/lake.tfstate",
    }


def test_a_name_that_aws_would_cut_or_refuse_is_refused_here() -> None:
    with pytest.raises(ValueError, match="more than the 64 that AWS allows"):
        naming.resource_name("a-rather-long-name", "x" * 40)


def test_the_longest_environment_in_the_longest_region_leaves_a_bucket_that_s3_takes() -> None:
    assert len(naming.bucket_name("x" * 20, account_id="1" * 12, region="ap-southeast-1")) <= 63


def test_a_database_is_called_as_the_cluster_in_letters_that_every_reader_takes_unquoted() -> None:
    assert naming.database_name("lkc-1Y3y5") == "lkc_1y3y5"


def test_the_state_of_a_stack_lies_where_other_stacks_look_for_it_from_their_own_folders() -> None:
    assert naming.state_path("lake") == "../../../state/lake.tfstate"


def test_own_tags_win_over_those_of_the_settings() -> None:
    tags = naming.tags("dev", "lake", {"team": "data", "stack": "mine"})

    assert tags == {"team": "data", "application": "frazil", "environment": "dev", "stack": "lake"}
    assert set(tags) - {"team"} == naming.OWN_TAGS
