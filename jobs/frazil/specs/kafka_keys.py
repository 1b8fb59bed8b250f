"""The keys of `kafka`: the settings of librdkafka that a consumer needs, with librdkafka's names."""

from __future__ import annotations

from frazil.specs.keys import Derived, Key, Refused, Required, Section
from frazil.specs.scalars import BOOLEAN_TEXT, NUMBER_TEXT, TEXT, parse_number_text, parse_whole
from frazil.specs.shapes import Choice, FilePath, HandedOn, NotYet, Scalar, SecretText, Unfit

LIBRDKAFKA = Derived("librdkafka's own")
NONE = Derived("none")

READER_GROUP = "frazil-reads-explicit-offsets"
"""The consumer group of readers. They never join it and commit no offsets, but librdkafka assigns partitions only to a
consumer with a group, looks up the group's coordinator, and fails without permission for the group."""

FETCH_BYTES = 64 << 20
"""The maximum bytes of one fetch, over all partitions."""

LEAST_ANSWER = FETCH_BYTES + 512
"""The value of `receive.message.max.bytes` that librdkafka requires for such a fetch."""


def parse_answer(text: str) -> str:
    if parse_whole(text) < LEAST_ANSWER:
        raise Unfit(f"write at least {LEAST_ANSWER}, the size of one fetch response; or remove the key")
    return parse_number_text(text)


ANSWER_TEXT = Scalar(
    f"a whole number from {LEAST_ANSWER}", parse_answer, {"type": "integer", "minimum": LEAST_ANSWER}, numeric=True
)

PROTOCOLS = Choice(("plaintext", "ssl", "sasl_plaintext", "sasl_ssl"), ignore_case=True)
MECHANISMS = Choice(
    ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"),
    not_yet=(
        NotYet("GSSAPI", "use PLAIN or SCRAM-SHA-512 over sasl_ssl, or client certificates with ssl"),
        NotYet("OAUTHBEARER", "use PLAIN or SCRAM-SHA-512 over sasl_ssl, or client certificates with ssl"),
        NotYet("AWS_MSK_IAM", "set aws_msk_iam: true, and remove sasl.mechanism"),
    ),
)

BOOTSTRAP = Key("bootstrap.servers", HandedOn(), "Bootstrap brokers, as host:port, separated by commas.", Required())
PROTOCOL = Key("security.protocol", PROTOCOLS, "The security protocol of the brokers.", "plaintext")
MECHANISM = Key("sasl.mechanism", MECHANISMS, "The SASL mechanism.", NONE)
MECHANISMS_ALIAS = Key("sasl.mechanisms", MECHANISMS, "An alias of sasl.mechanism; set only one.", NONE)
USERNAME = Key("sasl.username", HandedOn(), "The user, or the API key of Confluent Cloud.", NONE)
PASSWORD = Key("sasl.password", SecretText(), "The password, or the API secret of Confluent Cloud.", NONE)
MSK_IAM = Key(
    "aws_msk_iam", BOOLEAN_TEXT, "Whether to authenticate to Amazon MSK with the process's IAM role.", "false"
)

KAFKA_KEYS: tuple[Key[object], ...] = (
    BOOTSTRAP,
    PROTOCOL,
    MECHANISM,
    MECHANISMS_ALIAS,
    USERNAME,
    PASSWORD,
    MSK_IAM,
    Key("ssl.ca.location", FilePath(words=("probe",)), "The CA certificates that verify the brokers, in PEM.",
        Derived("the system's")),
    Key("ssl.ca.pem", HandedOn(), "The CA certificates themselves, in PEM.", NONE),
    Key("ssl.certificate.location", FilePath(), "The client's certificate, in PEM.", NONE),
    Key("ssl.certificate.pem", HandedOn(), "The client's certificate itself, in PEM.", NONE),
    Key("ssl.key.location", FilePath(), "The client's private key, in PEM.", NONE),
    Key("ssl.key.pem", SecretText(), "The client's private key itself, in PEM.", NONE),
    Key("ssl.key.password", SecretText(), "The password of the private key.", NONE),
    Key("ssl.keystore.location", FilePath(), "Certificate and key in one PKCS#12 file.", NONE),
    Key("ssl.keystore.password", SecretText(), "The password of the PKCS#12 file.", NONE),
    Key("ssl.endpoint.identification.algorithm", Choice(("https", "none")),
        "How to check a broker's host name against its certificate.", LIBRDKAFKA),
    Key("enable.ssl.certificate.verification", BOOLEAN_TEXT, "Whether to verify the brokers'"
        " certificates.", LIBRDKAFKA),
    Key("ssl.cipher.suites", TEXT, "The allowed TLS cipher suites.", LIBRDKAFKA),
    Key("client.id", TEXT, "The client name in the brokers' logs.", LIBRDKAFKA),
    Key("client.rack", TEXT, "The job's availability zone, to read from the nearest replica.", NONE),
    Key("client.dns.lookup", Choice(("use_all_dns_ips", "resolve_canonical_bootstrap_servers_only")),
        "How to resolve the brokers' names.", LIBRDKAFKA),
    Key("broker.address.family", Choice(("any", "v4", "v6")), "The IP address family to use.", LIBRDKAFKA),
    Key("connections.max.idle.ms", NUMBER_TEXT, "The time after which an idle connection is closed.", LIBRDKAFKA,
        "milliseconds"),
    Key("socket.timeout.ms", NUMBER_TEXT, "The timeout of a request.", LIBRDKAFKA, "milliseconds"),
    Key("socket.connection.setup.timeout.ms", NUMBER_TEXT, "The timeout of a connection"
        " attempt.", LIBRDKAFKA, "milliseconds"),
    Key("socket.keepalive.enable", BOOLEAN_TEXT, "Whether TCP keeps idle connections alive.", LIBRDKAFKA),
    Key("reconnect.backoff.ms", NUMBER_TEXT, "The wait before the first reconnection.", LIBRDKAFKA, "milliseconds"),
    Key("reconnect.backoff.max.ms", NUMBER_TEXT, "The longest wait before a reconnection.", LIBRDKAFKA, "milliseconds"),
    Key("metadata.max.age.ms", NUMBER_TEXT, "The longest time that cluster metadata is"
        " cached.", LIBRDKAFKA, "milliseconds"),
    Key("receive.message.max.bytes", ANSWER_TEXT, "The largest accepted response of a broker.", LIBRDKAFKA, "bytes"),
)  # fmt: skip

OURS = "Frazil sets this key"
IN_THE_TABLE = "Frazil stores offsets in the table; remove the key"
JAVA = "this is a setting for Java clients"
PKCS12 = "convert the store with `keytool -importkeystore -deststoretype PKCS12` and give ssl.keystore.location"
TRUSTSTORE = "export the CA certificates as PEM with `keytool -exportcert -rfc` and give ssl.ca.location"
DECODING = "set `key:` and `value:` in the table spec; remove the key"
SCRAM = "use sasl.mechanism: SCRAM-SHA-512 with sasl.username and sasl.password, over sasl_ssl"

REFUSED = (
    Refused("group.*", OURS, IN_THE_TABLE),
    Refused("enable.auto.*", OURS, IN_THE_TABLE),
    Refused("auto.commit.*", OURS, IN_THE_TABLE),
    Refused("auto.offset.reset", OURS, "set `start:` in the table spec; remove the key"),
    Refused("isolation.level", OURS, "Frazil reads only committed records; remove the key"),
    Refused("enable.partition.eof", OURS, "remove the key"),
    Refused("fetch.*", OURS, "remove the key; records larger than a fetch are read anyway"),
    Refused("check.crcs", OURS, "checksums are always checked; remove the key"),
    Refused("key.deserializer*", JAVA, DECODING),
    Refused("value.deserializer*", JAVA, DECODING),
    Refused("schema.registry.*", JAVA, "set `schema_registry:` next to `kafka:`; remove the key"),
    Refused("basic.auth.*", "this key belongs to the schema registry", "move the key under `schema_registry:`"),
    Refused("sasl.jaas.config", JAVA, "set sasl.username and sasl.password instead"),
    Refused("sasl.*.callback.handler.class", JAVA, SCRAM),
    Refused("ssl.truststore.*", JAVA, TRUSTSTORE),
    Refused("ssl.keystore.type", JAVA, PKCS12),
    Refused("ssl.keystore.*", JAVA, PKCS12),
    Refused("sasl.kerberos.*", "Kerberos is not supported", SCRAM),
    Refused("sasl.oauthbearer.*", "OAUTHBEARER is not supported in this release", SCRAM),
    Refused("aws.*", "this is not a librdkafka setting", "for Amazon MSK set aws_msk_iam: true"),
)

KAFKA = Section(KAFKA_KEYS, refused=REFUSED)
