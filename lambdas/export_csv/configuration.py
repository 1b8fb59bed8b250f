"""The exports of an environment: one JSON object in the lake's bucket, which the stack `exports` writes."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from frazil.model.errors import Misuse
from frazil.model.exports import ExportSpec
from frazil.model.settings import CatalogSettings
from frazil.model.spelling import did_you_mean
from lambdas.export_csv.link_key import LinkKeys
from lambdas.export_csv.links import Signer


@dataclass(frozen=True, slots=True)
class CloudExport:
    """An export, the ARN of the SNS topic that its announcements go to, and the addresses that should get them."""

    spec: ExportSpec
    topic: str
    mail: Sequence[str]


@dataclass(frozen=True, slots=True)
class Links:
    """How links are made: the address that serves the bucket, the id of the public key there, and the secret with the
    private one."""

    address: str
    key_id: str
    secret: str

    def signer(self, keys: LinkKeys) -> Signer:
        return Signer(self.address, self.key_id, keys.current)


@dataclass(frozen=True, slots=True)
class Configuration:
    catalog: CatalogSettings
    exports: Mapping[str, CloudExport]
    links: Links | None

    def asked_for(self, event: Mapping[str, Any]) -> CloudExport:
        """Return the export that an event names. Raises Misuse if it names none, or one that the environment lacks."""
        name = event.get("export")
        if isinstance(name, str):
            return self.named(name)
        first = min(self.exports, default="NAME")
        raise Misuse(
            "the event names no export",
            hint=f'invoke the function with {{"export": "{first}"}}: the environment has'
            f" {', '.join(sorted(self.exports)) or 'none'} (docs/exports-in-the-cloud.md, Run it by hand)",
        )

    def named(self, name: str) -> CloudExport:
        """Return the export of this name. Raises Misuse if the environment has none."""
        if name not in self.exports:
            similar = did_you_mean(name, self.exports)
            raise Misuse(
                f"the environment has no export {name}",
                hint=f"did you mean {similar}?"
                if similar
                else f"it has {', '.join(sorted(self.exports))}: add it to"
                " `exports` in the environment's file, then run `scripts/deploy.sh create`",
            )
        return self.exports[name]


def read_configuration(s3: Any, address: str) -> Configuration:
    """Read the object. `s3` is boto3's client, `address` that of the object: `s3://bucket/key`."""
    bucket, _, key = address.removeprefix("s3://").partition("/")
    return configuration_of(json.loads(s3.get_object(Bucket=bucket, Key=key)["Body"].read()))


def configuration_of(value: Mapping[str, Any]) -> Configuration:
    catalog, links = value["catalog"], value["links"]
    return Configuration(
        CatalogSettings("glue", catalog["warehouse"], catalog["properties"]),
        {
            name: CloudExport(ExportSpec.of_json(each["spec"]), each["topic"], each["mail"])
            for name, each in value["exports"].items()
        },
        None if links is None else Links(**links),
    )
