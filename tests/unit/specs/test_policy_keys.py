"""`columns` and `tags` of a table spec, and their keys in `frazil.yaml`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from frazil.model.errors import Misuse, SettingError
from frazil.model.policies import Policies, Policy
from frazil.model.secret import DeferredSecret
from frazil.model.settings import Settings

Load = Callable[..., Settings]
KEYS = """
kafka: {bootstrap.servers: "localhost:9092"}
schema_registry: {url: "http://localhost:8081"}
policies:
  hash_key: {id: h1, secret: "${secret:keys#hash}"}
  dead_letter_key: {id: d1, file: letters.key}
"""
SPEC = "topic: people\n"


def test_policies_are_read_with_their_keys(load: Load) -> None:
    text = """
columns:
  email: {mask: hash}
  phones[]: {mask: truncate, length: 4}
  ssn: {drop: true}
  kafka_key.id: {mask: redact}
tags: {PII: {mask: redact}}
key: avro
"""
    (spec,) = load(KEYS, SPEC + text).tables

    hashed, cut, redacted = Policy("hash"), Policy("truncate", 4), Policy("redact")
    own = (("email", hashed), ("phones[]", cut), ("ssn", Policy("drop")))
    assert spec.policies.columns == (*own[:1], ("kafka_key.id", redacted), *own[1:])
    assert spec.value_settings.policies == Policies(own, (("PII", redacted),), "h1")
    assert spec.key_settings.policies == Policies((("id", redacted),), (("PII", redacted),), "h1")
    assert spec.dead_letter_key is not None
    assert (spec.dead_letter_key.id, "key" in spec.metadata.keep) == ("d1", True)
    assert "***" in repr(spec.value_settings.hash_key)


@pytest.mark.parametrize("form", ["avro", "json_schema", "protobuf"])
def test_policies_by_tags_are_those_of_values_and_keys_with_schemas(load: Load, form: str) -> None:
    text = f"key: {form}\nvalue: {form}\ncolumns: {{kafka_key.id: {{mask: none}}}}\ntags: {{PII: {{mask: redact}}}}"
    (spec,) = load(KEYS, SPEC + text).tables

    by_tag = (("PII", Policy("redact")),)
    assert (spec.value_settings.policies.tags, spec.key_settings.policies.tags) == (by_tag, by_tag)


def test_what_a_table_records_of_policies_is_read_back(load: Load) -> None:
    text = "columns: {a: {mask: hash}, b: {mask: truncate, length: 12}, c.d: {drop: true}}\ntags: {P: {mask: none}}"
    (spec,) = load(KEYS, SPEC + text).tables

    assert Policies.of_texts(spec.policies.columns_text(), spec.policies.tags_text()) == spec.policies
    assert Policies.of_texts("", "") == Policies()


def test_the_key_of_records_is_left_out_unless_it_has_a_policy(load: Load) -> None:
    (spec,) = load(KEYS, f"{SPEC}columns: {{email: {{mask: hash}}}}").tables

    assert "key" not in spec.metadata.keep


@pytest.mark.parametrize(
    ("text", "what", "hint"),
    [
        ("columns: {a: {mask: tokenize}}", "tokenize is not supported in this release", "use hash"),
        ("columns: {a: {mask: drop}}", "drop is not supported", "write {drop: true}"),
        ("columns: {a: {mask: hash, drop: true}}", "exactly one of mask or drop must be given", "give mask or drop"),
        ("columns: {a: hash}", 'expected a policy, found "hash"', "write `{mask: hash}` or `{drop: true}`"),
        ("policies: {}", "the keys of policies belong in frazil.yaml", "move the key there"),
        ("columns: {a: {mask: truncate}}", "a: truncate needs a length", "{mask: truncate, length: 4}"),
        ("columns: {a: {mask: hash, length: 4}}", "only truncate has one", "{mask: truncate, length: 4}"),
        ("columns: {a-b: {mask: hash}}", "expected a column", "dots between them"),
        ("columns: {kafka_offset: {mask: hash}}", "kafka_offset is a metadata column", "metadata.keep"),
        ("columns: {kafka_headers: {mask: redact}}", "headers are kept as they are or not at all", "mask: none"),
        (
            "columns: {a: {mask: hash}}\nwrite: upsert",
            "the key is the identity of a row, and the table keeps no key",
            "add kafka_key: {mask: hash} or kafka_key: {mask: none} to columns",
        ),
        ("columns: {kafka_key: {drop: true}}", "kafka_key cannot be dropped by a policy", "remove the policy"),
        (
            "columns: {a: {mask: hash}}\nmetadata: {keep: [value]}",
            "kafka_value would hold the masked values as they are",
            "remove value from the list",
        ),
        (
            "columns: {a: {mask: hash}}\nmetadata: {keep: [key, headers]}",
            "kafka_headers may hold masked values, and `columns` has no policy for it",
            "kafka_headers: {mask: none}",
        ),
        (
            "columns: {a: {mask: hash}}\nwrite: upsert\ncdc: debezium\ncdc_keep: [source.lsn, source.query]",
            "source.query is an SQL statement, which may have masked values",
            "write __source_query: {mask: redact} under `columns`",
        ),
        ("tags: {PII: {drop: true}}", "PII: a tag cannot drop columns", "write {mask: redact}"),
        (
            "key: none\ncolumns: {kafka_key: {mask: hash}}",
            "kafka_key has no effect: the table keeps no key",
            "set `key`",
        ),
        (
            "columns: {kafka_key: {mask: hash}}\nmetadata: {keep: [offset]}",
            "kafka_key has no effect: the table keeps no key",
            "metadata.keep",
        ),
        ("value: string\ntags: {PII: {mask: hash}}", "tags of string values are not read", "name the columns"),
        (
            "write: upsert\norder_by: at\non_tombstone: skip\nmetadata: {keep: [timestamp]}\nkey: string\n"
            "columns: {at: {mask: hash}}",
            "at orders the records of a key, and has mask: hash",
            "write {mask: none}, or order by another column",
        ),
        (
            "write: upsert\ncdc: debezium\ncdc_order: source\ncdc_connector: oracle\n"
            "metadata: {keep: [timestamp, key]}\nkey: avro\ncolumns: {__position_scn: {mask: redact}}",
            "__position_scn orders the records of a key, and has mask: redact",
            "write {mask: none}, or order by another column",
        ),
        (
            "write: upsert\ncolumns: {kafka_key: {mask: truncate, length: 4}}",
            "the key is the identity of a row: kafka_key may be hashed, and has mask: truncate",
            "write {mask: hash}",
        ),
    ],
)
def test_what_contradicts_a_policy_is_refused(load: Load, text: str, what: str, hint: str) -> None:
    with pytest.raises(Misuse) as refused:
        load(KEYS, SPEC + text)

    assert what in str(refused.value)
    assert hint in f"{refused.value} {refused.value.hint}"


@pytest.mark.parametrize("mask", ["redact", "none"])
def test_a_statement_is_kept_with_a_policy(load: Load, mask: str) -> None:
    text = "write: upsert\ncdc: debezium\ncdc_keep: [source.query]\nkey: avro\ncolumns: {kafka_key: {mask: hash}, "

    (spec,) = load(KEYS, f"{SPEC}{text}__source_query: {{mask: {mask}}}}}").tables

    assert ("__source_query", Policy(mask)) in spec.policies.columns  # type: ignore[arg-type]


@pytest.mark.parametrize("lacking", ["hash_key", "dead_letter_key"])
def test_a_key_that_policies_need_is_required(load: Load, lacking: str) -> None:
    text = "\n".join(line for line in KEYS.splitlines() if lacking not in line)

    with pytest.raises(SettingError, match=f"policies.{lacking}: required key is missing: lake.people"):
        load(text, f"{SPEC}columns: {{a: {{mask: hash}}}}")


def test_a_key_in_a_file_is_read_when_used(load: Load, tmp_path: Path) -> None:
    (spec,) = load(KEYS, f"{SPEC}columns: {{a: {{mask: hash}}}}").tables
    key = spec.dead_letter_key
    assert key is not None
    assert isinstance(key.secret, DeferredSecret)

    with pytest.raises(SettingError, match=r"policies.dead_letter_key.file: could not read .*letters.key") as lost:
        key.read()
    assert lost.value.hint is not None
    assert lost.value.hint.startswith("correct the path, or restore the file from a copy")
    assert "what to do if there is no copy (A lost key)" in lost.value.hint
