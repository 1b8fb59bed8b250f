"""Encrypt what dead letters hold of a record, for specs with policies, and decrypt it for those who have the key.

AES-256-GCM (NIST SP 800-38D) with a random nonce for each value. Topic, partition, offset and column are authenticated
with it, so that no value can be moved to another letter. The detail is stored as `encrypted:<key id>:<base64>`, by
which an encrypted letter is known: no other detail begins so. A null stays null.
"""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from frazil.formats.masks.hashes import key_bytes
from frazil.model.errors import SettingError
from frazil.model.secret import NamedKey

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

PREFIX = "encrypted:"
HEADER = "encrypted"
"""The name of the only header of an encrypted letter; its value holds all headers."""
NONCE_BYTES = 12
ENCRYPTED = ("key", "value", "headers", "detail")
_PLACE = ("topic", "partition", "offset")

Place = tuple[str, int, int]
Letter = Mapping[str, Any]
"""A row of the dead-letter table, or the columns of one that are needed, by name."""


def key_id_of(detail: str | None) -> str | None:
    """Return the id of the key that encrypts a letter with this detail; None if the letter is not encrypted."""
    return detail[len(PREFIX) :].partition(":")[0] if detail is not None and detail.startswith(PREFIX) else None


@dataclass(frozen=True, slots=True)
class LetterCipher:
    """Encrypts and decrypts with one key."""

    key_id: str
    aes: AESGCM

    @staticmethod
    def of(key: NamedKey) -> LetterCipher:
        """Return the cipher of a key. Raises SettingError if the key is unusable, and as `NamedKey.read`."""
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # noqa: PLC0415 - few specs have policies

        return LetterCipher(key.id, AESGCM(key_bytes(key)))

    def encrypt(self, letter: Letter) -> dict[str, Any]:
        """Return the encrypted columns of a letter."""
        headers = letter["headers"]
        whole = None if headers is None else [{"key": HEADER, "value": self._seal(letter, "headers", _packed(headers))}]
        detail = base64.b64encode(self._seal(letter, "detail", (letter["detail"] or "").encode())).decode()
        of_bytes = {
            name: None if letter[name] is None else self._seal(letter, name, letter[name]) for name in ("key", "value")
        }
        return {**of_bytes, "headers": whole, "detail": f"{PREFIX}{self.key_id}:{detail}"}

    def decrypt(self, letter: Letter) -> dict[str, Any]:
        """Return the decrypted columns of an encrypted letter. Raises SettingError with another key."""
        headers = letter["headers"]
        of_bytes = {
            name: None if letter[name] is None else self._open(letter, name, letter[name]) for name in ("key", "value")
        }
        try:
            sealed = base64.b64decode(letter["detail"].rpartition(":")[2], validate=True)
            of_headers = None if headers is None else headers[0]["value"]
        except (ValueError, IndexError) as problem:
            raise self._spoiled(letter, "headers" if isinstance(problem, IndexError) else "detail") from problem
        return {
            **of_bytes,
            "headers": None if of_headers is None else _unpacked(self._open(letter, "headers", of_headers)),
            "detail": self._open(letter, "detail", sealed).decode(),
        }

    def _seal(self, letter: Letter, column: str, content: bytes) -> bytes:
        nonce = os.urandom(NONCE_BYTES)
        return nonce + self.aes.encrypt(nonce, content, _authenticated(letter, column))

    def _open(self, letter: Letter, column: str, sealed: bytes) -> bytes:
        from cryptography.exceptions import InvalidTag  # noqa: PLC0415

        try:
            return self.aes.decrypt(sealed[:NONCE_BYTES], sealed[NONCE_BYTES:], _authenticated(letter, column))
        except (InvalidTag, ValueError) as problem:
            raise self._spoiled(letter, column) from problem

    def _spoiled(self, letter: Letter, column: str) -> SettingError:
        return SettingError(
            f"the column `{column}` of the dead letter {_named(letter)} cannot be decrypted with the dead_letter_key"
            f" {self.key_id}: another key has this id now, or the dead letter was changed",
            hint=f"configure the dead_letter_key that had the id {self.key_id} when the dead letter was written",
        )


def decrypted(letter: Letter, key: NamedKey | None) -> dict[str, Any]:
    """Return the columns of a letter that may be encrypted, as they were. Every reader of letters uses this function.

    Raises SettingError if the letter is encrypted with another key than `key`.
    """
    key_id = key_id_of(letter["detail"])
    if key_id is None:
        return {name: letter[name] for name in ENCRYPTED}
    if key is None or key.id != key_id:
        has = "no dead_letter_key is configured" if key is None else f"the configured dead_letter_key is {key.id}"
        raise SettingError(
            f"the dead letter {_named(letter)} is encrypted with the key {key_id}, and {has}",
            hint=f"set `policies: {{dead_letter_key: {{id: {key_id}, secret: …}}}}` in frazil.yaml",
        )
    return LetterCipher.of(key).decrypt(letter)


def encrypted_columns(
    columns: Mapping[str, pa.Array], *, topic: str, partition: int, key: NamedKey
) -> dict[str, pa.Array]:
    """Return columns of new dead letters with everything encrypted that comes from the record."""
    cipher = LetterCipher.of(key)
    given = {name: columns[name].to_pylist() for name in (*ENCRYPTED, "offset")}
    rows = [
        cipher.encrypt({"topic": topic, "partition": partition, **dict(zip(given, values, strict=True))})
        for values in zip(*given.values(), strict=True)
    ]
    return {**columns, **_arrays(rows, {name: columns[name].type for name in ENCRYPTED})}


def decrypted_batch(batch: pa.RecordBatch, key: NamedKey | None) -> tuple[pa.RecordBatch, Mapping[int, SettingError]]:
    """Return dead letters as they were, and by index why others cannot be decrypted: these stay as they are."""
    if not pc.any(pc.starts_with(batch.column("detail"), PREFIX)).as_py():
        return batch, {}
    rows: list[Letter] = []
    unread: dict[int, SettingError] = {}
    for index, letter in enumerate(batch.select([*_PLACE, *ENCRYPTED]).to_pylist()):
        try:
            rows.append(decrypted(letter, key))
        except SettingError as problem:
            unread[index] = problem
            rows.append(letter)
    arrays = _arrays(rows, {name: batch.schema.field(name).type for name in ENCRYPTED})
    columns = [arrays.get(name, batch.column(name)) for name in batch.schema.names]
    return pa.RecordBatch.from_arrays(columns, schema=batch.schema), unread


def _arrays(rows: Sequence[Letter], types: Mapping[str, pa.DataType]) -> dict[str, pa.Array]:
    return {name: pa.array([row[name] for row in rows], kind) for name, kind in types.items()}


def _authenticated(letter: Letter, column: str) -> bytes:
    return json.dumps([*(letter[name] for name in _PLACE), column]).encode()


def _named(letter: Letter) -> str:
    return f"{letter['topic']}-{letter['partition']}@{letter['offset']}"


def _packed(headers: Sequence[Mapping[str, Any]]) -> bytes:
    """Return headers as JSON: pairs of a key, which is text, and the base64 of its value."""
    return json.dumps([[_text(each["key"]), _in_base64(each["value"])] for each in headers]).encode()


def _text(key: str | bytes) -> str:
    return key.decode() if isinstance(key, bytes) else key


def _in_base64(value: bytes | None) -> str | None:
    return None if value is None else base64.b64encode(value).decode()


def _unpacked(content: bytes) -> list[dict[str, Any]]:
    pairs = json.loads(content)
    return [{"key": key, "value": None if value is None else base64.b64decode(value)} for key, value in pairs]
