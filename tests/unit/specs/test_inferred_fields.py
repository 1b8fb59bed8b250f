"""Columns that `frazil init` suggests for JSON values: they fit the values that it has seen."""

from __future__ import annotations

import json

import pytest
from config_files import KAFKA, Load
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from frazil.formats.open import open_plain
from frazil.model.spec import FormatSettings
from frazil.records import binary
from frazil.specs.inferred_fields import inferred_fields


@pytest.mark.parametrize(
    ("values", "fields"),
    [
        (['{"a": 1, "b": 1.5, "c": "x", "d": true}'], {"a": "long", "b": "double", "c": "string", "d": "boolean"}),
        (['{"a": 1}', '{"a": 1.5, "b": null}', '{"b": "x"}'], {"a": "double", "b": "string"}),
        (['{"a": 1}', '{"a": "x"}'], {"a": "json"}),
        (['{"a": null, "b": [], "c": {}}'], {"a": "json", "b": "[json]", "c": "json"}),
        (['{"a": [{"x": 1}, {"y": [1.0]}]}'], {"a": "[{x: long, y: [double]}]"}),
        (['{"a-b": 1, "A": 1, "a": 2, "_extra": 3}'], {"A": "long"}),
        ([f'{{"a": {2**63}}}', '{"a": %s}' % ("1" * 5_000)], {"a": "json"}),
        (["[1]", '{"a": 1}'], {}),
        ([], {}),
    ],
)
def test_each_field_has_the_type_that_all_its_values_have(values: list[str], fields: dict[str, str]) -> None:
    assert inferred_fields(values) == fields


FIELDS = st.sampled_from(["id", "name", "Tags", "x y"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=3).filter(lambda text: text.isascii()),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(FIELDS, inner, max_size=2),
    max_leaves=5,
)  # fmt: skip


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50)
@given(st.lists(st.dictionaries(FIELDS, VALUES, max_size=3), min_size=1, max_size=3))
def test_inferred_fields_take_every_value_of_the_sample(values: list[dict[str, object]]) -> None:
    texts = [json.dumps(value) for value in values]
    fields = inferred_fields(texts)
    if not fields:
        return
    written = _read(fields)

    decoder = open_plain("json", FormatSettings(fields=written))
    assert decoder is not None
    assert decoder.decode(binary([text.encode() for text in texts])).rejects == ()


def _read(fields: dict[str, str]) -> str:
    """Parse the fields as a spec is parsed."""
    from frazil.specs.declared_fields import DECLARED_FIELDS  # noqa: PLC0415
    from frazil.specs.document import parse  # noqa: PLC0415
    from frazil.specs.keys import nowhere  # noqa: PLC0415

    return DECLARED_FIELDS.read(parse("\n".join(f"{name}: {text}" for name, text in fields.items())), nowhere())


def test_the_suggestion_is_a_valid_declaration(load: Load) -> None:
    fields = inferred_fields(['{"id": 1, "items": [{"sku": "a"}], "more": {"x": null}}'])
    text = "\n".join(f"  {name}: {declared}" for name, declared in fields.items())

    (spec,) = load(KAFKA, f"topic: a\nvalue: json\nfields:\n{text}").tables

    assert json.loads(spec.value_settings.fields) == {
        "id": "long",
        "items": [{"sku": "string"}],
        "more": {"x": "json"},
    }
