"""A Terraform provider with the schema of Confluent's or Snowflake's and no service behind it.

`python -m devcloud.stub_provider confluent` speaks Terraform's plugin protocol 6. Terraform itself checks types,
required arguments, blocks and references by the schema; `infra/schemas/*.rules.json` says what the real provider, or
the service, refuses beyond that, and what it decides. An environment variable such as
FRAZIL_STUB_CONFLUENT_KAFKA_CLUSTER__BOOTSTRAP_ENDPOINT decides one attribute of a type instead.

Objects exist in Terraform's state only, but for what a double has to know (`stub_behind.py`): a refresh finds what was
made, every change is in place, nothing is imported.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import string
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import grpc  # type: ignore[import-untyped]
import msgpack  # type: ignore[import-untyped]
import tf.provider  # type: ignore[import-untyped]
import tf.runner  # type: ignore[import-untyped]
from tf.gen import tfplugin_pb2 as pb  # type: ignore[import-untyped]
from tf.gen import tfplugin_pb2_grpc as rpc

from devcloud.stub_behind import Behind, Nothing, behind
from devcloud.stub_values import Block, Rules, Value, applied, planned, refused

SCHEMAS = Path(__file__).parents[1] / "infra" / "schemas"
OVERRIDE = "FRAZIL_STUB_"
NESTING = {"single": 1, "list": 2, "set": 3, "map": 4, "group": 5}
SEED_LETTERS = string.ascii_lowercase + string.digits
SEED_LENGTH = 6


class StubProvider(rpc.ProviderServicer):  # type: ignore[misc]
    """The methods have the protocol's names."""

    def __init__(self, schema: Mapping[str, Any], rules: Rules, lies_behind: Behind | None = None) -> None:
        self._schema, self._rules = schema, rules
        self._behind = lies_behind or Nothing()

    def _resource(self, kind: str) -> Block:
        block: Block = self._schema["resource_schemas"][kind]["block"]
        return block

    def _data_source(self, kind: str) -> Block:
        block: Block = self._schema["data_source_schemas"][kind]["block"]
        return block

    def GetMetadata(self, request: Any, context: Any) -> None:  # noqa: N802
        context.abort(grpc.StatusCode.UNIMPLEMENTED, "Terraform asks for the schema instead")

    def GetProviderSchema(self, request: Any, context: Any) -> Any:  # noqa: N802
        return pb.GetProviderSchema.Response(
            provider=_schema_message(self._schema["provider"]),
            resource_schemas=_schema_messages(self._schema["resource_schemas"]),
            data_source_schemas=_schema_messages(self._schema.get("data_source_schemas", {})),
        )

    def ValidateProviderConfig(self, request: Any, context: Any) -> Any:  # noqa: N802
        return pb.ValidateProviderConfig.Response()

    def ConfigureProvider(self, request: Any, context: Any) -> Any:  # noqa: N802
        return pb.ConfigureProvider.Response()

    def ValidateResourceConfig(self, request: Any, context: Any) -> Any:  # noqa: N802
        found = self._refused(request, self._resource(request.type_name))
        return pb.ValidateResourceConfig.Response(diagnostics=found)

    def ValidateDataResourceConfig(self, request: Any, context: Any) -> Any:  # noqa: N802
        found = self._refused(request, self._data_source(request.type_name))
        return pb.ValidateDataResourceConfig.Response(diagnostics=found)

    def UpgradeResourceState(self, request: Any, context: Any) -> Any:  # noqa: N802
        return pb.UpgradeResourceState.Response(upgraded_state=pb.DynamicValue(json=request.raw_state.json))

    def ReadResource(self, request: Any, context: Any) -> Any:  # noqa: N802
        current = _read(request.current_state)
        try:
            found = None if current is None else self._behind.found(request.type_name, current)
        except OSError as error:
            return pb.ReadResource.Response(diagnostics=[_error(str(error))])
        return pb.ReadResource.Response(new_state=_written(found))

    def PlanResourceChange(self, request: Any, context: Any) -> Any:  # noqa: N802
        proposed = _read(request.proposed_new_state)
        new = None if proposed is None else planned(self._resource(request.type_name), proposed)
        return pb.PlanResourceChange.Response(planned_state=_written(new))

    def ApplyResourceChange(self, request: Any, context: Any) -> Any:  # noqa: N802
        try:
            new = self._changed(request.type_name, _read(request.prior_state) or {}, _read(request.planned_state))
        except OSError as error:
            return pb.ApplyResourceChange.Response(new_state=request.prior_state, diagnostics=[_error(str(error))])
        return pb.ApplyResourceChange.Response(new_state=_written(new))

    def ReadDataSource(self, request: Any, context: Any) -> Any:  # noqa: N802
        asked = _read(request.config) or {}
        same = hashlib.sha256(request.config.msgpack).hexdigest()[:SEED_LENGTH]  # whoever asks the same gets the same
        found = self._made(request.type_name, self._data_source(request.type_name), asked, same)
        return pb.ReadDataSource.Response(state=_written(found))

    def StopProvider(self, request: Any, context: Any) -> Any:  # noqa: N802
        return pb.StopProvider.Response()

    def GetFunctions(self, request: Any, context: Any) -> Any:  # noqa: N802
        return pb.GetFunctions.Response()

    def _refused(self, request: Any, block: Block) -> list[Any]:
        reasons = refused(request.type_name, block, _read(request.config) or {}, self._rules)
        return [_error(reason) for reason in reasons]

    def _changed(self, kind: str, prior: Value, wanted: Value | None) -> Value | None:
        if wanted is None:
            self._behind.drop(kind, prior)
            return None
        new = self._made(kind, self._resource(kind), wanted, _new_seed())
        self._behind.make(kind, new)
        return new

    def _made(self, kind: str, block: Block, wanted: Value, seed: str) -> Value:
        return applied(kind, block, wanted, rules=self._rules, seed=seed)


def _error(reason: str) -> Any:
    return pb.Diagnostic(severity=pb.Diagnostic.ERROR, summary=reason)


def _new_seed() -> str:
    return "".join(secrets.choice(SEED_LETTERS) for _ in range(SEED_LENGTH))


def _schema_messages(schemas: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    return {name: _schema_message(schema) for name, schema in schemas.items()}


def _schema_message(schema: Mapping[str, Any]) -> Any:
    return pb.Schema(version=schema.get("version", 0), block=_block_message(schema["block"]))


def _block_message(block: Block) -> Any:
    return pb.Schema.Block(
        attributes=[_attribute_message(name, one) for name, one in block.get("attributes", {}).items()],
        block_types=[_nested_message(name, one) for name, one in block.get("block_types", {}).items()],
    )


def _attribute_message(name: str, attribute: Mapping[str, Any]) -> Any:
    flags = {flag: attribute.get(flag, False) for flag in ("required", "optional", "computed", "sensitive")}
    return pb.Schema.Attribute(name=name, type=json.dumps(attribute["type"]).encode(), **flags)


def _nested_message(name: str, nested: Mapping[str, Any]) -> Any:
    return pb.Schema.NestedBlock(
        type_name=name,
        block=_block_message(nested["block"]),
        nesting=NESTING[nested["nesting_mode"]],
        min_items=nested.get("min_items", 0),
        max_items=nested.get("max_items", 0),
    )


def _read(message: Any) -> Value | None:
    if message.msgpack:
        found: Value | None = msgpack.unpackb(message.msgpack, strict_map_key=False)
        return found
    return json.loads(message.json) if message.json else None


def _written(value: Value | None) -> Any:
    return pb.DynamicValue(msgpack=msgpack.packb(value))


def load(provider: str, environment: Mapping[str, str]) -> tuple[Mapping[str, Any], Rules]:
    """The committed schema and rules; the environment's decisions on top of the rules'."""
    schemas = json.loads((SCHEMAS / f"{provider}.json").read_text(encoding="utf-8"))["provider_schemas"]
    (schema,) = (one for address, one in schemas.items() if address.endswith(f"/{provider}"))
    written = json.loads((SCHEMAS / f"{provider}.rules.json").read_text(encoding="utf-8"))
    kinds = [*schema["resource_schemas"], *schema.get("data_source_schemas", {})]
    defaults = _overridden(written.get("defaults", {}), kinds, environment)
    return schema, Rules(written.get("rules", {}), defaults)


def _overridden(
    defaults: Mapping[str, Mapping[str, Any]], kinds: Iterable[str], environment: Mapping[str, str]
) -> dict[str, dict[str, Any]]:
    return {path: {**defaults.get(path, {}), **_decided_by(environment, path)} for path in sorted({*defaults, *kinds})}


def _decided_by(environment: Mapping[str, str], kind: str) -> dict[str, str]:
    prefix = f"{OVERRIDE}{kind.upper()}__"
    return {name.removeprefix(prefix).lower(): value for name, value in environment.items() if name.startswith(prefix)}


def main(provider: str) -> None:
    schema, rules = load(provider, os.environ)
    lies_behind = behind(provider, os.environ)
    tf.provider.ProviderServicer = lambda _: StubProvider(
        schema, rules, lies_behind
    )  # run_provider() takes no servicer of ours
    tf.runner.run_provider(None)


if __name__ == "__main__":
    main(sys.argv[1])
