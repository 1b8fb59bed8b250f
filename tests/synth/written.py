"""Stacks as they are written for Terraform, with references by the paths of constructs: they say more than hashes."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from infra.cdk import App
from infra.components.kafka import Kafka, KeyHolders
from infra.guards.aspect import synthesize
from infra.settings.file import load_environment
from infra.settings.model import EnvironmentSettings

Json = Mapping[str, Any]
KAFKA = Kafka(
    name="lkc-1y3y5",
    bootstrap_servers="broker:9092",
    security_protocol="sasl_ssl",
    sasl_mechanism="PLAIN",
    msk_iam=False,
    credentials="frazil/dev/materializer",
    registry_url="https://registry",
    registry_credentials="frazil/dev/materializer",
    key_holders=KeyHolders(
        kafka_rest_endpoint="https://rest",
        registry_id="lsrc-1",
        owners={"manager": "sa-1", "materializer": "sa-2"},
    ),
)


@dataclass(frozen=True)
class Written:
    """The document of one stack. A reference to `aws_vpc.made_vpc_F9E4505E.id` reads `{made/vpc.id}`."""

    document: Json
    folder: Path

    def of(self, kind: str) -> dict[str, Any]:
        """The arguments of each resource of a type, by the path of its construct."""
        return {_path(each): _without_comment(each) for each in self.document["resource"].get(kind, {}).values()}

    def one(self, kind: str) -> Any:
        (arguments,) = self.of(kind).values()
        return arguments

    def types(self) -> dict[str, int]:
        return {kind: len(named) for kind, named in self.document.get("resource", {}).items()}

    def addresses(self, *paths: str) -> list[str]:
        """How Terraform calls the resources of these constructs."""
        found = {_path(each): f"{kind}.{name}" for kind, name, each in _declared(self.document)}
        return [found[path] for path in paths]

    @property
    def outputs(self) -> dict[str, Any]:
        """Those for people; references of other stacks make some of their own."""
        outputs = self.document.get("output", {}).items()
        return {name: each["value"] for name, each in outputs if not name.startswith("cross-stack-output-")}

    def policy(self, kind: str, path: str, argument: str = "policy") -> list[Any]:
        """The statements of a policy."""
        return list(json.loads(self.of(kind)[path][argument])["Statement"])


def dev(**changes: Any) -> EnvironmentSettings:
    """The example of an environment, and what is different about it here."""
    return replace(load_environment("dev", {}), tags={}, **changes)


def write(folder: Path, settings: EnvironmentSettings, build: Callable[[App], object]) -> dict[str, Written]:
    """Every stack by its name, held to the rules as a real synthesis is."""
    app = App(outdir=str(folder))
    build(app)
    synthesize(app, production=settings.production)
    return {path.parent.name: _read(path) for path in sorted(folder.glob("stacks/*/cdk.tf.json"))}


def _read(path: Path) -> Written:
    text = path.read_text()
    document = json.loads(text)
    for kind, name, each in _declared(document):
        text = re.sub(rf"\$\{{(data\.)?{kind}\.{re.escape(name)}\.([^}}]*)}}", rf"{{{_path(each)}.\2}}", text)
    return Written(json.loads(text), path.parent)


def _declared(document: Json) -> Iterator[tuple[str, str, Json]]:
    for part in ("resource", "data"):
        for kind, named in document.get(part, {}).items():
            yield from ((kind, name, each) for name, each in named.items() if "//" in each)


def _path(body: Json) -> str:
    return str(body["//"]["metadata"]["path"]).split("/", 1)[1]


def _without_comment(body: Json) -> dict[str, Any]:
    return {name: value for name, value in body.items() if name != "//"}
