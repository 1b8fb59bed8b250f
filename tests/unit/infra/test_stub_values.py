"""What a stand-in of a provider decides and refuses, as values."""

from __future__ import annotations

from devcloud.stub_provider import load
from devcloud.stub_values import UNKNOWN, Rules, applied, planned, refused

BLOCK = {
    "attributes": {
        "id": {"type": "string", "computed": True},
        "name": {"type": "string", "required": True},
        "size": {"type": "number", "optional": True, "computed": True},
        "described": {"type": ["list", ["object", {"arn": "string", "age": "number"}]], "computed": True},
        "labels": {"type": ["list", ["map", "string"]], "computed": True},
    },
    "block_types": {
        "cloud": {
            "nesting_mode": "list",
            "block": {"attributes": {"role": {"type": "string", "computed": True}}, "block_types": {}},
        }
    },
}
RULES = Rules(
    rules={"thing": {"keys": {"config": {"class": ["Datagen"], "topic": "Required[str]", "max": "str"}}}},
    defaults={
        "thing": {"id": "t-#", "described": [{"arn": "arn:#"}], "labels": [{"owner": "#"}]},
        "thing.cloud": {"role": "role/#"},
    },
)


def test_a_plan_leaves_open_what_the_provider_decides() -> None:
    assert planned(BLOCK, {"name": "a", "size": 3, "id": None, "cloud": [{"role": None}]}) == {
        "id": UNKNOWN,
        "name": "a",
        "size": 3,
        "described": UNKNOWN,
        "labels": UNKNOWN,
        "cloud": [{"role": UNKNOWN}],
    }


def test_what_was_open_is_decided_by_the_defaults_and_the_type() -> None:
    plan = planned(BLOCK, {"name": "a", "size": None, "cloud": [{"role": None}]})

    assert applied("thing", BLOCK, plan, rules=RULES, seed="x1") == {
        "id": "t-x1",
        "name": "a",
        "size": 0,
        "described": [{"arn": "arn:x1", "age": None}],
        "labels": [{"owner": "x1"}],
        "cloud": [{"role": "role/x1"}],
    }


def test_what_was_decided_before_stays() -> None:
    before = {"id": "t-old", "name": "b", "size": 1, "described": [], "labels": [], "cloud": [{"role": "role/old"}]}

    assert applied("thing", BLOCK, planned(BLOCK, before), rules=RULES, seed="new") == before


def test_keys_of_a_map_are_held_to_the_rules() -> None:
    found = list(refused("thing", BLOCK, {"config": {"class": "Other", "maximum": "1"}}, RULES))

    assert found == [
        "config: there is no 'maximum'",
        "config: 'class': expected one of ['Datagen'], found 'Other'",
        "config: 'topic' is missing",
    ]


def test_the_environment_decides_instead_of_the_rules() -> None:
    variable = "FRAZIL_STUB_CONFLUENT_SCHEMA_REGISTRY_CLUSTER__REST_ENDPOINT"

    _, rules = load("confluent", {variable: "http://127.0.0.1:8081"})

    assert rules.default("confluent_schema_registry_cluster", "rest_endpoint") == "http://127.0.0.1:8081"
    assert rules.default("confluent_schema_registry_cluster", "id") == "lsrc-#"
