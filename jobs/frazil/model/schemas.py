"""Schemas as a registry gives them, and what can be said against them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

SchemaType = Literal["AVRO", "PROTOBUF", "JSON"]
"""As schema registries name it."""


@dataclass(frozen=True, slots=True)
class RegisteredSchema:
    """A schema under its registry id. `references` are the texts that it refers to, dependencies first."""

    id: int
    format: SchemaType
    text: str
    references: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SchemaFinding:
    """One reason why a schema cannot be carried over as it is: the dotted path in it, and what is wrong there."""

    path: str
    problem: str

    def __str__(self) -> str:
        return f"{self.path or '(record)'}: {self.problem}"
