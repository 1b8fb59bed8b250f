"""Payloads without a registered schema: which ones a column can hold."""

from __future__ import annotations

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from frazil.formats import plain
from frazil.formats.framing import Framed, Group, one_group
from frazil.formats.open import grouping_of, guessed_plain_format, open_plain, plain_format
from frazil.formats.plain import DEEPEST_JSON, _bad_json, _bad_text, json_problems
from frazil.model.dead_letter import Reason
from frazil.records import binary


def refused(word: str, *payloads: bytes) -> list[tuple[int, str, str]]:
    decoder = open_plain(word)
    assert decoder is not None
    return [(r.index, r.reason.value, r.detail) for r in decoder.decode(binary(payloads)).rejects]


def kept(word: str, *payloads: bytes, skip: int = 0) -> list[object]:
    decoder = open_plain(word)
    assert decoder is not None
    rows = decoder.decode(binary(payloads), skip=skip).rows
    return list(rows.column("value").to_pylist())


def test_bytes_and_text_are_kept_as_they_are() -> None:
    assert kept("bytes", b"\xff\0", b"") == [b"\xff\0", b""]
    assert kept("string", "é\0".encode(), b"") == ["é\0", ""]
    assert kept("string", b"\0\0\0\0\1text", skip=5) == ["text"]


def test_text_that_is_not_utf_8_is_refused_and_the_rest_is_kept() -> None:
    payloads = (b"a", b"\xff", "é".encode(), b"ab\xc3")

    assert refused("string", *payloads) == [
        (1, "bad_utf8", "invalid start byte at byte 0"),
        (3, "bad_utf8", "unexpected end of data at byte 2"),
    ]
    assert kept("string", *payloads) == ["a", "é"]


@pytest.mark.parametrize(
    "text",
    [
        '{"b": 1,  "a": [true, null]}\n',
        " 1 ",
        '"\\ud800"',
        "1" * 5_000,
        "1e999",
        '{"a": 1, "a": 2}',
        "[" * DEEPEST_JSON + "]" * DEEPEST_JSON,
        json.dumps({"text": "[" * 2 * DEEPEST_JSON, "\\": '"' * DEEPEST_JSON}),
        "[" + "[]," * 2 * DEEPEST_JSON + "[]]",
    ],
)
def test_a_json_text_is_kept_as_it_was_written(text: str) -> None:
    assert kept("json", text.encode()) == [text]


@pytest.mark.parametrize(
    ("payload", "reason", "detail"),
    [
        (b"", "bad_json", "Expecting value at character 0"),
        (b"{'a': 1}", "bad_json", "Expecting property name enclosed in double quotes at character 1"),
        (b'{"a": 1} {"a": 2}', "bad_json", "Extra data at character 9"),
        (b'{"a": ', "bad_json", "Expecting value at character 6"),
        (b"[1, NaN]", "bad_json", "NaN is not a number of JSON"),
        (b"-Infinity", "bad_json", "-Infinity is not a number of JSON"),
        (b"01", "bad_json", "Extra data at character 1"),
        (b'"a\nb"', "bad_json", "Invalid control character at at character 2"),
        (b"\xef\xbb\xbf{}", "bad_json", "Expecting value at character 0"),
        (b'"\xff"', "bad_utf8", "invalid start byte at byte 1"),
        (b"\0\0\0\0\1{}", "bad_json", "Expecting value at character 0"),
        (b"[" * (DEEPEST_JSON + 1), "too_large", "more than 500 levels of arrays and objects"),
    ],
)
def test_what_is_not_one_json_text_is_refused(payload: bytes, reason: str, detail: str) -> None:
    assert refused("json", b"{}", payload, b"[]") == [(1, reason, detail)]
    assert kept("json", b"{}", payload, b"[]") == ["{}", "[]"]


@pytest.fixture(autouse=True)
def with_and_without_the_native_module(engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if engine == "fallback":
        monkeypatch.setattr(plain, "native_available", lambda: False)


NEARLY_JSON = st.text(alphabet='{}[]",:0-.eE+\\u tn\x1f\ud800', max_size=20).map(
    lambda text: text.encode(errors="replace")
)
PAYLOADS = st.lists(st.none() | st.binary(max_size=9) | NEARLY_JSON | st.just(b"[" * 501 + b"]" * 501), max_size=4)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(PAYLOADS)
def test_the_native_check_leaves_no_bad_payload_out(payloads: list[bytes | None]) -> None:
    given = binary([b"{", *payloads])[1:]

    found = json_problems(given)

    one_by_one = [_bad(index, payload) for index, payload in enumerate(payloads) if payload is not None]
    assert list(found) == [each for each in one_by_one if each is not None]


def _bad(index: int, payload: bytes) -> object:
    return _bad_text(index, payload) or _bad_json(index, payload.decode())


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(max_size=20) | st.text(alphabet='{}[]",:0-.eE+\\u tn', max_size=20).map(str.encode))
def test_json_is_what_pythons_parser_accepts_without_its_extensions(payload: bytes) -> None:
    def is_json() -> bool:
        try:
            json.loads(payload.decode(), parse_constant=lambda name: 1 / 0)
        except (ValueError, ZeroDivisionError):
            return False
        return True

    assert bool(refused("json", payload)) is not is_json()


def test_null_is_not_a_problem_of_a_key() -> None:
    for word in ("bytes", "string", "json"):
        found = plain_format(word)
        assert found is not None
        assert found.problems(binary([None, b"1"])) == ()


def test_values_without_a_header_are_one_group() -> None:
    assert one_group(binary([b"a", b""])) == Framed((Group(None, None),), (), ())
    assert one_group(binary([None, None])) == Framed((), (0, 1), ())
    assert one_group(binary([])) == Framed((), (), ())
    ((group,), nulls, unframed) = (mixed := one_group(binary([b"a", None, b"b"]))).groups, mixed.nulls, mixed.unframed
    assert group.indexes is not None
    assert (group.schema_id, group.header_bytes, group.indexes.tolist(), nulls, unframed) == (None, 0, [0, 2], (1,), ())
    assert grouping_of("json") is one_group
    assert grouping_of("avro") is not one_group


@pytest.mark.parametrize(
    ("payloads", "word"),
    [
        ([b'{"a": 1}', b"2"], "json"),
        ([b" [1]"], "json"),
        ([b"1", b"2"], "string"),
        ([b"{a}", b"text"], "string"),
        ([b'{"a": 1}', b"\xff"], "bytes"),
        ([b'{"a": 1}'] * 4 + [b"\xff"], "json"),
        ([b'{"a": 1}'] * 3 + [b"\xff"], "bytes"),
        ([b"a"] * 8 + [b"\xff", b"{"], "string"),
    ],
)
def test_the_format_that_holds_all_values_but_garbage_is_guessed(payloads: list[bytes], word: str) -> None:
    assert guessed_plain_format(binary(payloads)) == word


def test_a_string_without_an_end_is_read_once() -> None:
    """It was read again from each of its quotes: minutes for 100 KB."""
    payload = b'"' + b'\\"' * 200_000 + b"[" * 501

    (reject,) = json_problems(binary([payload]))
    (other,) = json_problems(binary([payload + b"\\"]))

    assert reject.reason is other.reason is Reason.BAD_JSON
