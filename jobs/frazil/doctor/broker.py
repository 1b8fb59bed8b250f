"""Check the Kafka cluster: connections to each broker, authentication, and that each topic exists and is readable."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial

from frazil.adapters.kafka.output_topics import KafkaOutputTopics
from frazil.adapters.kafka.probe import KafkaProbe
from frazil.adapters.kafka.topics import KafkaTopics
from frazil.adapters.network import Address
from frazil.doctor.addresses import address_of, brokers_of, tls_of_kafka
from frazil.doctor.asking import Asking
from frazil.doctor.configuration import lacks_a_secret
from frazil.doctor.finding import Finding, not_asked
from frazil.doctor.ways import SLACK_SECONDS, ways
from frazil.model.errors import BrokerError, FrazilError, TopicMissingError
from frazil.model.outputs import OutputSpec, SentTable
from frazil.model.plan import TopicFacts
from frazil.model.secret import SettingValue
from frazil.model.spec import TableSpec
from frazil.model.spelling import plural
from frazil.model.transforms import Identified, TransformSpec, TransformTable
from frazil.outputs.checks import check_topic

CLUSTER = "metadata"
GROUP = "group"


def ask_brokers(
    kafka: Mapping[str, SettingValue],
    specs: Sequence[TableSpec],
    asking: Asking,
    transforms: Sequence[TransformSpec] = (),
) -> Iterator[Finding]:
    """Check the bootstrap brokers, then the brokers that they list, which must be reachable too."""
    outputs = outputs_of(specs, transforms)
    found = ways(asking, brokers_of(kafka), tls_of_kafka(kafka))
    yield from found
    topics = topics_of(specs)
    unasked = [CLUSTER, GROUP, *(f"topic {topic}" for topic in topics), *_output_topics(outputs)]
    if lacks_a_secret(kafka):
        yield from _not_asked(unasked, "a secret of `kafka` is missing")
    elif all(finding.verdict == "failed" for finding in found):
        yield from _not_asked(unasked, "no broker can be reached")
    else:
        answers = True
        for finding in _ask_cluster(kafka, topics, asking):
            answers = answers and not finding.is_silence and (finding.what, finding.verdict) != (CLUSTER, "failed")
            yield finding
        if answers:
            yield from _ask_outputs(kafka, outputs, asking)
        else:
            yield from _not_asked(_output_topics(outputs), "the cluster does not answer")


def topics_of(specs: Sequence[TableSpec]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(topic for spec in specs for topic in spec.topics))


Outputs = Sequence[tuple[SentTable, OutputSpec]]


def outputs_of(specs: Sequence[TableSpec], transforms: Sequence[TransformSpec]) -> Outputs:
    """Return the outputs of all tables. The keys of those of transformations are not known here."""
    tables: list[tuple[SentTable, OutputSpec]] = [(spec, output) for spec in specs for output in spec.outputs]
    return [*tables, *((TransformTable(spec, Identified()), each) for spec in transforms for each in spec.outputs)]


def _output_topics(outputs: Outputs) -> tuple[str, ...]:
    """Return what the checks of output topics are called."""
    return tuple(f"output topic {output.topic}" for _, output in outputs)


def _ask_cluster(kafka: Mapping[str, SettingValue], topics: Sequence[str], asking: Asking) -> Iterator[Finding]:
    patient = replace(asking, seconds=asking.seconds + SLACK_SECONDS)
    brokers: list[Address] = []

    def cluster() -> str:
        brokers.extend(address_of(each) for each in probe.brokers(topics[0]))
        return f"{plural(len(brokers), 'broker')}{_proof(kafka)}"

    try:
        opened = closing(KafkaProbe(kafka, seconds=asking.seconds))
        admin = KafkaTopics({**kafka, "log_level": "0"})
    except FrazilError as problem:
        yield Finding(asking.part, CLUSTER, "failed", problem.what, problem.hint)
        yield from _not_asked([GROUP, *(f"topic {topic}" for topic in topics)], "the cluster does not answer")
        return
    with opened as probe:
        answer = patient.ask(CLUSTER, cluster)
        yield answer
        if answer.verdict == "failed":
            yield from _not_asked([GROUP, *(f"topic {topic}" for topic in topics)], "the cluster does not answer")
            return
        yield from ways(asking, [each for each in brokers if each not in brokers_of(kafka)], tls_of_kafka(kafka))
        yield patient.ask(GROUP, admin.look_up_group)
        yield from _ask_topics(admin, probe, topics, patient)


def _ask_topics(admin: KafkaTopics, probe: KafkaProbe, topics: Sequence[str], asking: Asking) -> Iterator[Finding]:
    """Describe each topic and read a record from it, which need different permissions."""
    for number, topic in enumerate(topics):
        facts: list[TopicFacts] = []
        described = asking.ask(f"topic {topic}", lambda topic=topic, facts=facts: _describe(admin, topic, facts))  # type: ignore[misc]
        yield described
        if facts and described.verdict == "ok":
            partition = min(facts[0].partitions)
            yield asking.ask(f"reading {topic}", lambda topic=topic, n=partition: probe.read(topic, n))  # type: ignore[misc]
        if described.is_silence:
            yield from _not_asked(
                [f"topic {each}" for each in topics[number + 1 :]], "the cluster did not answer before"
            )
            return


def _ask_outputs(kafka: Mapping[str, SettingValue], outputs: Outputs, asking: Asking) -> Iterator[Finding]:
    """Check that each output topic exists, has partitions enough, and may be written to, as far as the cluster says."""
    topics, patient = KafkaOutputTopics(kafka), replace(asking, seconds=asking.seconds + SLACK_SECONDS)
    for table, output in outputs:
        finding = patient.ask(f"output topic {output.topic}", partial(_output, topics, table, output))
        yield finding
        if finding.is_silence:
            return


def _output(topics: KafkaOutputTopics, table: SentTable, output: OutputSpec) -> str:
    check_topic(topics, table, output)
    return f"{plural(topics.partitions(output.topic), 'partition')}, {plural(output.shards, 'shard')}"


def _describe(admin: KafkaTopics, topic: str, found: list[TopicFacts]) -> str:
    facts = admin.describe(topic)
    if facts is None:
        raise TopicMissingError(
            f"the cluster has no topic {topic}, or this user may not see it",
            hint="create the topic, grant DESCRIBE on it, or fix `topic` in the table spec",
        )
    found.append(facts)
    return in_words(facts)


def in_words(facts: TopicFacts) -> str:
    """Return the numbers of partitions and offsets. Raises BrokerError if the topic has no partitions."""
    if not facts.partitions:
        raise BrokerError(f"the topic {facts.topic} has no partitions", hint="inspect it with your Kafka tools")
    return f"{plural(len(facts.partitions), 'partition')}, offsets for {plural(facts.offsets, 'record')}"


def _proof(kafka: Mapping[str, SettingValue]) -> str:
    if kafka.get("aws_msk_iam") == "true":
        return ", which take this process's role"
    mechanism = kafka.get("sasl.mechanism")
    return "" if mechanism is None else f", which take the {mechanism} password"


def _not_asked(what: Sequence[str], why: str) -> Iterator[Finding]:
    return (not_asked("broker", each, why) for each in what)
