"""Convert keys of `frazil.yaml` to the settings of the clients of Kafka, the registry and the catalog."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from frazil.model.secret import Secret, SettingValue
from frazil.model.settings import GlueSource, RegistrySettings
from frazil.model.spec import TableSpec
from frazil.specs import kafka_keys, settings_keys
from frazil.specs.catalog_keys import catalog_problems
from frazil.specs.keys import Key, Values
from frazil.specs.problems import Position, Problem


def kafka_of(values: Values) -> Mapping[str, SettingValue]:
    """Return the settings for librdkafka, with one spelling per key."""
    given = _given(values, kafka_keys.KAFKA_KEYS)
    if kafka_keys.MECHANISMS_ALIAS.name in given:
        given[kafka_keys.MECHANISM.name] = given.pop(kafka_keys.MECHANISMS_ALIAS.name)
    return given


def registry_of(values: Values | None) -> RegistrySettings | None:
    if values is None:
        return None
    url = values.get(settings_keys.REGISTRY_URL) or ""
    if values[settings_keys.REGISTRY_TYPE] == "confluent":
        return RegistrySettings(url, _given(values, settings_keys.CONFLUENT_KEYS))
    source = GlueSource(values[settings_keys.REGISTRY_NAME], values.get(settings_keys.REGISTRY_REGION) or "")
    return RegistrySettings(url or glue_endpoint(source.region), glue=source)


def glue_endpoint(region: str) -> str:
    """Return the address of AWS Glue in a region."""
    return f"https://glue.{region}.amazonaws.com{'.cn' if region.startswith('cn-') else ''}"


def _given(values: Values, keys: tuple[Key[object], ...]) -> dict[str, SettingValue]:
    given = {key.name: values[key] for key in keys if values.is_given(key)}
    return {name: value if isinstance(value, Secret) else str(value) for name, value in given.items()}


def cluster_problems(kafka: Values, registry: Values | None, catalog: Values) -> Iterator[Problem]:
    """Yield the contradictions within and between the sections."""
    yield from _sasl_problems(kafka)
    yield from _ssl_problems(kafka)
    yield from () if registry is None else _registry_problems(registry)
    yield from catalog_problems(catalog)


def _sasl_problems(values: Values) -> Iterator[Problem]:
    mechanisms = (kafka_keys.MECHANISM, kafka_keys.MECHANISMS_ALIAS)
    given = [key for key in (*mechanisms, kafka_keys.USERNAME, kafka_keys.PASSWORD) if values.is_given(key)]
    protocol = values[kafka_keys.PROTOCOL]
    if values[kafka_keys.MSK_IAM] == "true":
        yield from _msk_problems(values, given)
    elif protocol.lower().startswith("sasl_"):
        yield from _missing_sasl(values, protocol)
    elif given:
        what = f"no effect, because security.protocol is {protocol}"
        yield Problem(values.place_of(given[0]), what, "set security.protocol: sasl_ssl, or remove the sasl.* keys")
    if all(values.is_given(key) for key in mechanisms):
        what = "duplicates sasl.mechanism, which is also set"
        yield Problem(values.place_of(kafka_keys.MECHANISMS_ALIAS), what, "keep one of them")


def _msk_problems(values: Values, given: list[Key[Any]]) -> Iterator[Problem]:
    """Yield problems of MSK's IAM authentication, which uses the process's role and requires TLS."""
    for key in given:
        yield Problem(
            values.place_of(key), "contradicts aws_msk_iam: true, which needs no password", "keep one of them"
        )
    if values.is_given(kafka_keys.PROTOCOL) and values[kafka_keys.PROTOCOL].lower() != "sasl_ssl":
        what = f"aws_msk_iam: true requires sasl_ssl, found {values[kafka_keys.PROTOCOL]}"
        yield Problem(values.place_of(kafka_keys.PROTOCOL), what, "remove the key")


def _missing_sasl(values: Values, protocol: str) -> Iterator[Problem]:
    has_mechanism = values.is_given(kafka_keys.MECHANISM) or values.is_given(kafka_keys.MECHANISMS_ALIAS)
    needed = {
        "sasl.mechanism": has_mechanism,
        "sasl.username": values.is_given(kafka_keys.USERNAME),
        "sasl.password": values.is_given(kafka_keys.PASSWORD),
    }
    missing = [name for name, is_given in needed.items() if not is_given]
    if missing:
        what = f"{protocol} needs {' and '.join(missing)}"
        hint = "add them; give a password as ${env:NAME} or ${secret:NAME}"
        yield Problem(values.place_of(kafka_keys.PROTOCOL), what, hint)


def _ssl_problems(values: Values) -> Iterator[Problem]:
    protocol = "sasl_ssl" if values[kafka_keys.MSK_IAM] == "true" else values[kafka_keys.PROTOCOL]
    for name, place in values.places.items():
        if name.startswith("ssl.") and not protocol.lower().endswith("ssl"):
            what = f"no effect, because security.protocol is {protocol}"
            yield Problem(place, what, "set security.protocol: ssl or sasl_ssl, or remove the ssl.* keys")
        if name == "ssl.keystore.location" and str(values.found[name]).endswith(".jks"):
            yield Problem(place, "Java key stores are not supported, only PKCS#12", kafka_keys.PKCS12)


def _registry_problems(values: Values) -> Iterator[Problem]:
    yield from _registry_type_problems(values)
    if "@" in (values.get(settings_keys.REGISTRY_URL) or "").split("//", 1)[-1].split("/", 1)[0]:
        hint = "move user and password to schema_registry: basic.auth.user.info"
        yield Problem(
            values.place_of(settings_keys.REGISTRY_URL), "logs show the URL, so it must not contain a password", hint
        )


def _registry_type_problems(values: Values) -> Iterator[Problem]:
    is_glue = values[settings_keys.REGISTRY_TYPE] == "glue"
    needed = settings_keys.REGISTRY_REGION if is_glue else settings_keys.REGISTRY_URL
    if not values.is_given(needed):
        what = f"required key is missing: {needed.name}"
        hint = "add region: eu-west-1, or where the registry is" if is_glue else "add url: https://…"
        yield Problem(values.place, what, hint)
    others = settings_keys.CONFLUENT_KEYS if is_glue else settings_keys.GLUE_KEYS
    for key in others:
        if values.is_given(key) and key is not settings_keys.REGISTRY_TYPE:
            what = f"no effect, because type is {values[settings_keys.REGISTRY_TYPE]}"
            yield Problem(values.place_of(key), what, f"remove {key.name}, or set type")


def wire_problems(registry: RegistrySettings, specs: Sequence[TableSpec], place: Position) -> Iterator[Problem]:
    """Yield the tables whose records name their schemas as those of another type of registry are named."""
    kind = "confluent" if registry.glue is None else "glue"
    for spec in specs:
        if spec.needs_registry and (spec.wire_format == "glue") != (kind == "glue"):
            what = f"{spec.identifier} has wire_format: {spec.wire_format}, and the registry has type: {kind}"
            hint = "set wire_format: glue" if kind == "glue" else "set type: glue in schema_registry, with its region"
            yield Problem(place, what, f"{hint}, or correct the other (the table's spec is {spec.source_file})")
