"""What no stack may break: pure functions of what it synthesizes to, which yield what is wrong and how to right it."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, cast

from shared.naming import OWN_TAGS

Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Declared:
    """One resource or data source. `path` is that of its construct: stack, components, id."""

    type: str
    name: str
    path: str
    arguments: Json

    def is_meant_by(self, value: object) -> bool:
        """Return whether a value refers to this resource."""
        return isinstance(value, str) and f"${{{self.type}.{self.name}." in value


@dataclass(frozen=True, slots=True)
class StackView:
    """A stack as it is written for Terraform, every reference resolved."""

    name: str
    production: bool
    document: Json

    def of(self, *types: str) -> Iterator[Declared]:
        """The resources of some types; all where none is named."""
        for kind, named in self.document.get("resource", {}).items():
            for name, body in named.items() if kind in types or not types else ():
                arguments = {key: value for key, value in body.items() if key != "//"}
                yield Declared(kind, name, body["//"]["metadata"]["path"], arguments)

    def beside(self, bucket: Declared, kind: str) -> Iterator[Json]:
        """The arguments of what completes a bucket."""
        return (each.arguments for each in self.of(kind) if bucket.is_meant_by(each.arguments.get("bucket")))


@dataclass(frozen=True, slots=True)
class Violation:
    """A resource that breaks a rule, and how to fix it."""

    path: str
    what: str
    fix: str


Rule = Callable[[StackView], Iterator[Violation]]


@dataclass(frozen=True, slots=True)
class Wildcard:
    """A wildcard that is needed: in which type of resource, which one, and why there is no other way."""

    type: str
    wildcard: str
    reason: str


ALLOWED_WILDCARDS = (
    Wildcard(
        "aws_kms_key", "kms:*", "the account administers its key by IAM: without this, no principal could change it"
    ),
    Wildcard("aws_kms_key", "*", "in the policy of a key, * is that key"),
    Wildcard("aws_iam_role_policy", "logs:DescribeLogGroups on *", "EMR Serverless looks for a job's group by listing"),
    Wildcard("aws_iam_role_policy", "glue:GetSchemaVersion on *", "records name a version by its id, not a registry"),
    Wildcard("aws_iam_role_policy", "s3:ListAllMyBuckets on *", "Tableflow lists buckets, which has no resource"),
)

ENCRYPTED_BY = {
    "aws_cloudwatch_log_group": ("kms_key_id",),
    "aws_secretsmanager_secret": ("kms_key_id",),
    "aws_sns_topic": ("kms_master_key_id",),
    "aws_sqs_queue": ("kms_master_key_id", "sqs_managed_sse_enabled"),
}
HOLDS_DATA = (
    "aws_glue_catalog_database",
    "aws_kms_key",
    "aws_s3_bucket",
    "confluent_environment",
    "confluent_kafka_cluster",
)
ANYWHERE = ("0.0.0.0/0", "::/0")
BLOCKS = ("block_public_acls", "block_public_policy", "ignore_public_acls", "restrict_public_buckets")
SECRET_NAME = re.compile(
    r"(^|[._-])(passw(or)?d|passphrase|secret|secret_string|access_key|secret_key"
    r"|token|api_key|api_secret|private_key|client_secret|user\.info)$",
    re.IGNORECASE,
)
SECRET_LINE = re.compile(
    r"^\s*[\w.\-]*(password|secret|token|private_key)['\"]?\s*[:=]\s*(?!\$|\*{3})['\"]?\S{6,}", re.I | re.M
)
SECRET_FORM = re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY|\b(AKIA|ASIA)[0-9A-Z]{16}\b")
RANDOM_TEXT = re.compile(r"(?<![\w+/=-])[A-Za-z0-9+/]{32,}={0,2}(?![\w+/=-])")
FINGERPRINT = re.compile(r"(hash|sha256|etag|md5|checksum)$")
EXPRESSION = re.compile(r"(?<!\$)\$\{[^}]*\}")
REFERENCE_IN_FRONT = re.compile(r"^\$\{[^}]*\}")
BITS_OF_RANDOM_TEXT = 4.2
MOST_CHARACTERS = 10_240
"""Of a role's policies, white space not counted."""
ARN_LENGTH, ID_LENGTH = 75, 20


def encryption(view: StackView) -> Iterator[Violation]:
    """Data is encrypted at rest with the environment's key."""
    for kind, arguments in ENCRYPTED_BY.items():
        for each in view.of(kind):
            if not any(each.arguments.get(name) for name in arguments):
                yield Violation(each.path, "it is not encrypted", f"give {' or '.join(arguments)}")
    for bucket in view.of("aws_s3_bucket"):
        kind = "aws_s3_bucket_server_side_encryption_configuration"
        if not any("aws:kms" in json.dumps(each) for each in view.beside(bucket, kind)):
            yield Violation(bucket.path, "its objects are not encrypted with a key of KMS", f"add {kind} with aws:kms")
    for workgroup in view.of("aws_athena_workgroup"):
        if "encryption_option" not in json.dumps(workgroup.arguments):
            yield Violation(workgroup.path, "results are not encrypted", "give encryption_configuration with SSE_KMS")
    for key in view.of("aws_kms_key"):
        if key.arguments.get("enable_key_rotation") is not True:
            yield Violation(key.path, "the key never changes", "give enable_key_rotation=True")


def tls_only(view: StackView) -> Iterator[Violation]:
    """No bucket answers without TLS."""
    for bucket in view.of("aws_s3_bucket"):
        policies = [each.get("policy") for each in view.beside(bucket, "aws_s3_bucket_policy")]
        if not any(_refuses_plain_http(statement) for policy in policies for statement in statements(policy) or ()):
            fix = "add aws_s3_bucket_policy with infra.permissions.iam.tls_only(bucket.arn)"
            yield Violation(bucket.path, "it can be talked to without TLS", fix)


def no_public_access(view: StackView) -> Iterator[Violation]:
    """Buckets are private and cannot be made public."""
    for bucket in view.of("aws_s3_bucket"):
        blocks = view.beside(bucket, "aws_s3_bucket_public_access_block")
        if not any(all(each.get(name) is True for name in BLOCKS) for each in blocks):
            fix = f"add aws_s3_bucket_public_access_block with {', '.join(BLOCKS)}"
            yield Violation(bucket.path, "public access is not blocked", fix)


def versioning(view: StackView) -> Iterator[Violation]:
    """Buckets keep overwritten and deleted objects for a limited time."""
    for bucket in view.of("aws_s3_bucket"):
        versions = view.beside(bucket, "aws_s3_bucket_versioning")
        if not any('"Enabled"' in json.dumps(each) for each in versions):
            yield Violation(bucket.path, "it keeps no versions", "add aws_s3_bucket_versioning with status Enabled")
        lifecycles = view.beside(bucket, "aws_s3_bucket_lifecycle_configuration")
        if not any("noncurrent_version_expiration" in json.dumps(each) for each in lifecycles):
            fix = "add aws_s3_bucket_lifecycle_configuration with noncurrent_version_expiration"
            yield Violation(bucket.path, "it keeps old versions for ever", fix)


def log_retention(view: StackView) -> Iterator[Violation]:
    """Every log has a retention, including those that Lambda creates itself."""
    groups = list(view.of("aws_cloudwatch_log_group"))
    for group in groups:
        if not group.arguments.get("retention_in_days"):
            yield Violation(group.path, "it keeps logs for ever", "give retention_in_days=settings.log_retention_days")
    for function in view.of("aws_lambda_function"):
        meant = json.dumps(function.arguments.get("logging_config", ""))
        named = f"/aws/lambda/{function.arguments.get('function_name')}"
        if not any(group.arguments.get("name") == named or group.is_meant_by(meant) for group in groups):
            yield Violation(
                function.path, "Lambda makes its log group, which is kept for ever", f"add one named {named}"
            )


def tags(view: StackView) -> Iterator[Violation]:
    """Every resource in AWS has the tags of its environment and stack."""
    if not any(each.type.startswith("aws_") for each in view.of()):
        return
    for provider in view.document.get("provider", {}).get("aws", [{}]):
        defaults = provider.get("default_tags", {})
        given = defaults if isinstance(defaults, list) else [defaults]
        missing = OWN_TAGS - {name for each in given for name in each.get("tags", {})}
        if missing:
            fix = "give the provider default_tags with shared.naming.tags(…)"
            yield Violation(f"{view.name}/aws", f"resources lack the tags {', '.join(sorted(missing))}", fix)


def wildcards(view: StackView) -> Iterator[Violation]:
    """Policies use no wildcard for actions or resources, except where AWS requires one."""
    for each in (one for one in view.of() if one.type.startswith("aws_")):
        for name, text in each.arguments.items():
            if not name.endswith("policy") or not isinstance(text, str) or text.lstrip()[:1] not in ("{", "$"):
                continue
            found = statements(text)
            if found is None:
                yield Violation(
                    each.path, f"its {name} cannot be read here", "build it with infra.permissions.iam.Policy"
                )
                continue
            for wildcard in (every for statement in found for every in _wildcards(statement)):
                if not any(_is_allowed(wildcard, each.type, allowed) for allowed in ALLOWED_WILDCARDS):
                    fix = (
                        "name actions and resources, or list it with its reason in infra.guards.rules.ALLOWED_WILDCARDS"
                    )
                    yield Violation(each.path, f"its {name} allows {wildcard}", fix)


def own_policies(view: StackView) -> Iterator[Violation]:
    """A role may do what its policy here says: none of a policy that others write, and change, is attached to it."""
    fix = "write the policy with infra.permissions.iam.Policy, as infra.components.role.Role does"
    for each in view.of(
        "aws_iam_role_policy_attachment", "aws_iam_policy_attachment", "aws_iam_user_policy_attachment"
    ):
        yield Violation(each.path, f"it attaches {each.arguments.get('policy_arn')}", fix)
    for role in view.of("aws_iam_role"):
        if role.arguments.get("managed_policy_arns"):
            yield Violation(role.path, "it has managed_policy_arns", fix)


def policy_sizes(view: StackView) -> Iterator[Violation]:
    """The policy of a role is no longer than IAM takes; references are estimated."""
    for each in view.of("aws_iam_role_policy"):
        size = len("".join(EXPRESSION.sub(_as_long_as_usual, str(each.arguments.get("policy"))).split()))
        if size > MOST_CHARACTERS:
            what = f"its policy has about {size:,} characters, more than the {MOST_CHARACTERS:,} that IAM takes"
            yield Violation(each.path, what, "divide the tables between two environments: each is named in the policy")


def ingress(view: StackView) -> Iterator[Violation]:
    """No security group allows ingress from everywhere."""
    rules = list(view.of("aws_vpc_security_group_ingress_rule"))
    rules += [each for each in view.of("aws_security_group_rule") if each.arguments.get("type") == "ingress"]
    blocks = list(view.of("aws_security_group", "aws_default_security_group"))
    let_in = [(each, each.arguments) for each in rules] + [(each, each.arguments.get("ingress")) for each in blocks]
    for each, arguments in let_in:
        if any(f'"{anywhere}"' in json.dumps(arguments) for anywhere in ANYWHERE):
            yield Violation(each.path, "it lets everybody in", "name the security group or the network that may")


def read_only(view: StackView) -> Iterator[Violation]:
    """Only the jobs write tables: Snowflake's volumes are read-only."""
    for volume in view.of("snowflake_external_volume"):
        if volume.arguments.get("allow_writes") != "false":
            yield Violation(volume.path, "tables may be written through it", 'give allow_writes="false"')


def no_secret(view: StackView) -> Iterator[Violation]:
    """No secret is in what is synthesized, or in the state that Terraform writes."""
    fix = "name the secret (${secret:NAME}), and let what needs it read it; or take it from the environment"
    for each in view.of("aws_secretsmanager_secret_version"):
        yield Violation(each.path, "Terraform would keep the secret in its state", "let the keys step store it")
    for path, name, text in _texts(view):
        if SECRET_NAME.search(name) and _is_literal(text):
            yield Violation(path, f"{name} is written out", fix)
        elif SECRET_FORM.search(text) or SECRET_LINE.search(text):
            yield Violation(path, f"{name} holds what looks like a key or a password", fix)
        elif not FINGERPRINT.search(name) and any(_is_random(match) for match in RANDOM_TEXT.findall(text)):
            yield Violation(path, f"{name} holds random text, as keys do", fix)


def deletion_protection(view: StackView) -> Iterator[Violation]:
    """In production, no plan deletes resources that hold data, and deleted data can be restored."""
    if not view.production:
        return
    for each in view.of(*HOLDS_DATA):
        if each.arguments.get("lifecycle", {}).get("prevent_destroy") is not True:
            yield Violation(
                each.path, "it holds data, and a plan may delete it", "give prevent_destroy=settings.production"
            )
        if each.arguments.get("force_destroy") is True:
            yield Violation(each.path, "it may be deleted with all that is in it", "give force_destroy=False")
    for secret in view.of("aws_secretsmanager_secret"):
        if secret.arguments.get("recovery_window_in_days", 30) < 7:
            yield Violation(secret.path, "it is gone at once when deleted", "give recovery_window_in_days=30")


RULES: tuple[Rule, ...] = (
    encryption,
    tls_only,
    no_public_access,
    versioning,
    log_retention,
    tags,
    wildcards,
    own_policies,
    policy_sizes,
    ingress,
    read_only,
    no_secret,
    deletion_protection,
)


def statements(policy: object) -> Sequence[Json] | None:
    """The statements of a policy in JSON; None where it is none. Quotes inside `${…}` are not the JSON's."""
    try:
        document = json.loads(EXPRESSION.sub(lambda match: match[0].replace('"', "'"), str(policy)))
        found = document["Statement"]
    except (ValueError, KeyError, TypeError):
        return None
    return cast("Sequence[Json]", found if isinstance(found, list) else [found])


def _refuses_plain_http(statement: Json) -> bool:
    insecure = statement.get("Condition", {}).get("Bool", {}).get("aws:SecureTransport") == "false"
    whole = any(str(each).endswith("/*") for each in _many(statement.get("Resource"))) and statement["Action"] == "s3:*"
    return statement["Effect"] == "Deny" and statement.get("Principal") == "*" and insecure and whole


def _as_long_as_usual(reference: re.Match[str]) -> str:
    return "x" * (ARN_LENGTH if reference[0].endswith("arn}") else ID_LENGTH)


def _wildcards(statement: Json) -> Iterator[str]:
    """Yield what a statement allows by wildcard: `s3:*`, `ec2:DescribeSubnets on *`, `principal *`."""
    if statement["Effect"] != "Allow":
        return
    yield from (f"everything but {name}" for name in ("NotAction", "NotResource", "NotPrincipal") if name in statement)
    principal = statement.get("Principal")
    if principal == "*" or (isinstance(principal, Mapping) and "*" in _many(principal.get("AWS"))):
        yield "principal *"
    actions = _many(statement.get("Action"))
    yield from (action for action in actions if "*" in action)
    for resource in _many(statement.get("Resource")):
        if _is_everything(resource):
            yield from (f"{action} on {resource}" for action in actions)


def _is_everything(resource: str) -> bool:
    """`*`, and an ARN that leaves open the account, the region, or which one: `arn:aws:glue:…:table/*`.

    What begins with a reference is one resource, or is inside one. A bucket has its name where others have their type.
    """
    fields = EXPRESSION.sub("x", resource).split(":", 5)
    if len(fields) < 6:
        return resource == "*"
    any_of_a_type = re.fullmatch(r"/?[\w-]+[:/]\*", fields[5]) is not None and fields[2] != "s3"
    return fields[5] == "*" or any_of_a_type or any("*" in field for field in fields[:5])


def _is_allowed(wildcard: str, kind: str, allowed: Wildcard) -> bool:
    in_own_policy = allowed.wildcard == "*" and wildcard.endswith(" on *")
    return fnmatchcase(kind, allowed.type) and (wildcard == allowed.wildcard or in_own_policy)


def _texts(view: StackView) -> Iterator[tuple[str, str, str]]:
    """Yield the place, the nearest name and the value of every string in a stack."""
    for each in view.of():
        yield from _texts_in(each.arguments, each.path, each.type)
    for part in ("provider", "variable", "output", "data", "locals"):
        for name, body in view.document.get(part, {}).items():
            yield from _texts_in(body, f"{view.name}/{name}", name)


def _texts_in(value: object, path: str, name: str) -> Iterator[tuple[str, str, str]]:
    if isinstance(value, str):
        yield path, name, value
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            if key != "//":
                yield from _texts_in(inner, path, name if key in ("value", "default") else key)
    elif isinstance(value, list):
        for inner in value:
            yield from _texts_in(inner, path, name)


def _is_literal(text: str) -> bool:
    return bool(text) and "${" not in text


def _is_random(text: str) -> bool:
    counts = Counter(text)
    bits = -sum(count / len(text) * math.log2(count / len(text)) for count in counts.values())
    kinds = (str.isupper, str.islower, str.isdigit)
    return all(any(kind(character) for character in text) for kind in kinds) and bits > BITS_OF_RANDOM_TEXT


def _many(value: Any) -> list[str]:
    return [] if value is None else [str(each) for each in value] if isinstance(value, list) else [str(value)]
