from __future__ import annotations

import json
from typing import Any

import pytest

from infra.generate import Module, Rules, Source, annotation, document, stripped

SCHEMA: dict[str, Any] = {
    "provider": {
        "block": {
            "attributes": {"region": {"type": "string", "optional": True}, "key": {"type": "string", "optional": True}}
        }
    },
    "resource_schemas": {
        "x_topic": {
            "version": 0,
            "block": {
                "description": "Prose.",
                "attributes": {
                    "id": {"type": "string", "computed": True, "optional": True},
                    "name": {"type": "string", "required": True, "description": "Prose."},
                    "description": {"type": "string", "optional": True},
                    "lambda": {"type": "bool", "optional": True},
                    "formats": {"type": ["set", "string"], "optional": True},
                    "old": {"type": "string", "optional": True, "deprecated": True},
                    "tags_all": {"type": ["map", "string"], "optional": True, "computed": True},
                },
                "block_types": {
                    "storage": {
                        "nesting_mode": "list",
                        "max_items": 1,
                        "min_items": 1,
                        "block": {"attributes": {"size": {"type": "number", "required": True}}},
                    },
                    "rule": {"nesting_mode": "set", "block": {"attributes": {}}},
                    "timeouts": {"nesting_mode": "single", "block": {"attributes": {}}},
                    "acl": {"nesting_mode": "list", "block": {"deprecated": True, "attributes": {}}},
                },
            },
        }
    },
    "data_source_schemas": {},
}
RULES = Rules(words={"x_topic.formats": ["ICEBERG", "DELTA"]}, maps={}, names={"x_topic.formats": "Format"})


def text_of(schema: dict[str, Any]) -> str:
    return Module("x", Source("acme/x", ">= 1", frozenset({"key"})), RULES).text(schema)


def test_prose_and_what_is_deprecated_or_unused_goes_and_an_argument_called_description_stays() -> None:
    block = stripped(SCHEMA)["resource_schemas"]["x_topic"]["block"]

    assert sorted(block["attributes"]) == ["description", "formats", "id", "lambda", "name"]
    assert sorted(block["block_types"]) == ["rule", "storage"]
    assert block["attributes"]["name"] == {"type": "string", "required": True}
    assert "Prose" not in json.dumps(block)


def test_a_resource_takes_its_arguments_by_name_and_refers_to_all_its_attributes() -> None:
    text = text_of(stripped(SCHEMA))

    assert text.endswith('''\
@dataclass(frozen=True, slots=True, kw_only=True)
class Topic_Rule(Block):
    """Takes nothing."""

@dataclass(frozen=True, slots=True, kw_only=True)
class Topic_Storage(Block):
    size: Number

class Topic(Resource):
    TYPE = "x_topic"
    description: str; formats: list[str]; id: str; lambda_: str; name: str

    def __init__(self, scope: Construct, construct_id: str, /, *, name: str, storage: Topic_Storage,
        description: str | None = None, formats: Sequence[Format] | None = None, lambda_: Flag | None = None,
        rule: Topic_Rule | Sequence[Topic_Rule] | None = None, **meta: Unpack[Meta]) -> None:
        super().__init__(scope, construct_id, {"description": description, "formats": formats, "lambda": lambda_,
            "name": name, "rule": rule, "storage": storage}, **meta)
''')
    compile(text, "generated", "exec")


def test_words_that_no_provider_checks_have_a_name_of_their_own() -> None:
    assert 'Format = Literal["ICEBERG", "DELTA"]' in text_of(stripped(SCHEMA))


def test_a_provider_does_not_take_what_is_withheld() -> None:
    provider = text_of(stripped(SCHEMA)).partition("class Provider(cdk.Provider):")[2].partition("class Topic")[0]

    assert "region: str | None = None" in provider
    assert "key" not in provider


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("string", "str"),
        ("number", "Number"),
        (["list", "string"], "Strings"),
        (["set", "number"], "Sequence[Number]"),
        (["map", "string"], "Mapping[str, str]"),
        (["list", ["map", "bool"]], "Sequence[Mapping[str, Flag]]"),
        (["set", ["object", {"a": "string"}]], "Sequence[Mapping[str, object]]"),
    ],
)
def test_terraforms_types_become_annotations(kind: object, expected: str) -> None:
    assert annotation(kind) == expected


def test_a_schema_file_has_one_type_a_line() -> None:
    text = document("registry.terraform.io/acme/x", stripped(SCHEMA))

    assert json.loads(text)["provider_schemas"] == {"registry.terraform.io/acme/x": stripped(SCHEMA)}
    assert [line for line in text.splitlines() if line.startswith('"x_topic"')]
